"""Times of the log as dates for people. What lies beyond the calendar is shown as its last moment."""

from __future__ import annotations

from datetime import UTC, datetime

_LAST = datetime.max.replace(tzinfo=UTC)
_FIRST_BEYOND_NS = 253_402_300_800 * 1_000_000_000


def moment_of(nanoseconds: int) -> datetime:
    return _LAST if nanoseconds >= _FIRST_BEYOND_NS else datetime.fromtimestamp(nanoseconds / 1e9, UTC)
