"""What the record of a version says about touching it."""

from __future__ import annotations

import pytest

from tidegate.core.replication.lifecycle_hold import FAILED, PENDING, why_held
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status


@pytest.mark.parametrize(
    ("states", "held", "held_with_failed"),
    [
        ((), "", ""),
        ((Status.COMPLETED,), "", ""),
        ((Status.PENDING,), PENDING, PENDING),
        ((Status.COMPLETED, Status.PENDING), PENDING, PENDING),
        ((Status.FAILED, Status.PENDING), PENDING, PENDING),
        ((Status.COMPLETED, Status.FAILED), "", FAILED),
    ],
)
def test_pending_versions_are_held_and_failed_ones_by_the_setting(
    states: tuple[Status, ...], held: str, held_with_failed: str
) -> None:
    sites = tuple(SiteState(f"s{number}", "copies", state, 1.0) for number, state in enumerate(states))
    record = ReplicationRecord("p", "b", "u", "k", "v", 1, 1.0, sites=sites)
    assert why_held(record, hold_failed=False) == held
    assert why_held(record, hold_failed=True) == held_with_failed
