"""Whether lifecycle must leave a version alone because of its replication, told from its record."""

from __future__ import annotations

from tidegate.core.replication.records import ReplicationRecord, Status

PENDING = "its replication is pending"
FAILED = "its replication has failed"
NOT_NOTICED = "its replication has not begun"


def why_held(record: ReplicationRecord, *, hold_failed: bool) -> str:
    """Empty if nothing holds it. What is pending at one site is held whatever has become of the others."""
    found = {state.status for state in record.sites}
    if Status.PENDING in found:
        return PENDING
    return FAILED if hold_failed and Status.FAILED in found else ""
