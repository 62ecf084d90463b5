"""The one line that a pass logs at its end. The words before the equals signs are stable: operators search for them."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.lifecycle.cursors import Cursor
from tidegate.core.lifecycle.due import SECOND_NS


def heartbeat(
    *, status: str, shards: int, errors: int, duration_ns: int, lag_ns: int | None, walked_age_ns: int | None
) -> str:
    """None stands for "not started yet", which is not the same as caught up."""
    return (
        f"daily_run: status={status} shards={shards} errors={errors} duration={duration(duration_ns)} "
        f"cursor_lag_max={_or_cold(lag_ns)} walked_max_age={_or_cold(walked_age_ns)}"
    )


def greatest_lag_ns(cursors: Iterable[Cursor], now_ns: int) -> int | None:
    """How far the slowest shard is behind; None when there is none yet."""
    return max((max(now_ns - cursor.frontier_ns, 0) for cursor in cursors), default=None)


def greatest_walk_age_ns(cursors: Iterable[Cursor], now_ns: int) -> int | None:
    """How long ago the walk was that is furthest back; None when nothing was walked yet."""
    walked = [cursor.last_walked_ns for cursor in cursors if cursor.last_walked_ns]
    return max((max(now_ns - last_ns, 0) for last_ns in walked), default=None)


def duration(length_ns: int) -> str:
    """In whole seconds, the larger units first: 1h2m3s, 3m, 7s, 0s."""
    minutes, seconds = divmod(max(length_ns, 0) // SECOND_NS, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{count}{unit}" for count, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if count]
    return "".join(parts) or "0s"


def _or_cold(length_ns: int | None) -> str:
    return "cold" if length_ns is None else duration(length_ns)
