from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import InvalidInput
from tidegate.core.records import Bucket
from tidegate.movement.graces import Graces
from tidegate.settings import DeletionSettings

BUCKET = Bucket("photos", "physics", "u1", "none", 1.0)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[SqliteTables]:
    made = SqliteTables(tmp_path / "tables.db")
    yield made
    made.close()


def test_a_bucket_goes_by_its_own_grace_or_its_pools_or_the_setting(tables: SqliteTables) -> None:
    graces = Graces(tables, DeletionSettings(grace_days=2))
    assert graces.seconds_of(BUCKET) == 2 * 86_400
    tables.put("gr:pool:physics", '{"name": "physics", "days": 0.5}')
    assert graces.seconds_of(BUCKET) == 43_200
    graces.set_of_bucket(BUCKET, 0)
    assert graces.seconds_of(BUCKET) == 0
    assert (graces.view().pools, graces.view().buckets) == ({"physics": 0.5}, {"photos": 0})
    graces.set_of_bucket(BUCKET, None)
    assert graces.seconds_of(BUCKET) == 43_200


@pytest.mark.parametrize("days", [-1, 3651, float("nan"), float("inf")])
def test_a_grace_that_is_no_length_of_time_is_refused(tables: SqliteTables, days: float) -> None:
    with pytest.raises(InvalidInput, match="0 to 3650 days"):
        Graces(tables, DeletionSettings()).set_of_bucket(BUCKET, days)
