"""The lists by which a run is spread over its workers name what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from spreading import LONGEST, SHARED, unit_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("place", [*LONGEST, *(place for places in SHARED.values() for place in places)])
def test_what_is_named_is_there(place: str) -> None:
    assert (ROOT / place).exists()


def test_modules_that_share_a_server_run_on_one_worker_and_others_anywhere() -> None:
    first, second = SHARED["short days"][:2]
    assert unit_of(f"{first}::test_a[x::y]") == unit_of(f"{second}::test_b") == "short days"
    assert unit_of("tests/unit/test_settings.py::test_a") == "tests/unit/test_settings.py"
