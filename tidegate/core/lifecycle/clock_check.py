"""Whether the time that a clock shows can be right, going by the newest time that was seen before.

A clock that jumps ahead makes everything due at once. A service cannot tell such a jump from having been switched off
for as long; so a short absence is believed, and a long one is asked about.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.core.lifecycle.due import SECOND_NS

HOUR_NS = 3600 * SECOND_NS
# Clocks of machines differ, and are put right. A clock that lost its battery is years behind.
_SET_BACK_NS = 24 * HOUR_NS


def why_not_believed(now_ns: int, seen_ns: int | None, *, limit_hours: float) -> str:
    """Why no pass may go by this clock; empty when it may. Without a limit every clock is believed."""
    if seen_ns is None or not limit_hours:
        return ""
    ahead_ns = now_ns - seen_ns
    if ahead_ns > limit_hours * HOUR_NS:
        return f"the clock shows {_told(now_ns)}, {_days(ahead_ns)} after the last time that was seen, {_told(seen_ns)}"
    if -ahead_ns > _SET_BACK_NS:
        return f"the clock shows {_told(now_ns)}, {_days(-ahead_ns)} before a time that was seen, {_told(seen_ns)}"
    return ""


def _told(moment_ns: int) -> str:
    return datetime.fromtimestamp(moment_ns // SECOND_NS, UTC).strftime("%Y-%m-%d %H:%MZ")


def _days(duration_ns: int) -> str:
    return f"{duration_ns / (24 * HOUR_NS):.1f} days"
