"""Whether a copy at a site is in use: the records of its key's versions tell."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.pending_deletes import Component, DataType, PendingDelete
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.movement.in_use import is_replicated
from tidegate.ports import Tables


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    made = SqliteTables(tmp_path / "tables.db")
    yield made
    made.close()


def note(tables: Tables, version_id: str, copy_id: str, *, site: str = "oslo", bucket: str = "copies") -> None:
    state = SiteState(site, bucket, Status.COMPLETED, 1.0, replica_version_id=copy_id)
    record = ReplicationRecord("p", "photos", "uid", "k:ü", version_id, 1, 1.0, is_marker=True, sites=(state,))
    tables.put(record.entry, record.to_json())


def copy_of(version_id: str, copy_id: str) -> PendingDelete:
    return PendingDelete(
        component=Component.REPLICA,
        data_type=DataType.LOCATION,
        pool="p",
        bucket="photos",
        bucket_uid="uid",
        key="k:ü",
        version_id=version_id,
        sent_ns=time.time_ns(),
        location="oslo",
        data_key="k:ü",
        data_bucket="copies",
        data_version_id=copy_id,
    )


def test_the_copy_of_a_version_is_in_use_whoever_wants_it_deleted(tables: Tables) -> None:
    note(tables, "v1", "c1")
    note(tables, "v2", "c2")
    assert is_replicated(tables, copy_of("v1", "c1"))
    assert is_replicated(tables, copy_of("v1", "c2")), "another version has the same copy"
    assert not is_replicated(tables, copy_of("v1", "c3"))


def test_what_lies_elsewhere_is_another_copy(tables: Tables) -> None:
    note(tables, "v1", "c1", site="paris")
    note(tables, "v2", "c1", bucket="others")
    assert not is_replicated(tables, copy_of("v1", "c1"))
