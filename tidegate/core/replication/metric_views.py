"""The figures of replication in the shapes of Backbeat's metrics API, descriptions included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.replication.counts import INTERVAL_SECONDS, IntervalCount

DAY_SECONDS = 86_400
THROUGHPUT_SECONDS = 900

Shown = dict[str, object]


class Metric(StrEnum):
    BACKLOG = "backlog"
    COMPLETIONS = "completions"
    FAILURES = "failures"
    THROUGHPUT = "throughput"
    PENDING = "pending"


_DESCRIPTIONS: Mapping[Metric, str] = {
    Metric.BACKLOG: (
        "Number of incomplete replication operations (count) and number of incomplete bytes transferred (size)"
    ),
    Metric.COMPLETIONS: (
        "Number of completed replication operations (count) and number of bytes transferred (size) "
        f"in the last {DAY_SECONDS} seconds"
    ),
    Metric.FAILURES: (
        f"Number of failed replication operations (count) and bytes (size) in the last {DAY_SECONDS} seconds"
    ),
    Metric.THROUGHPUT: (
        "Current throughput for replication operations in ops/sec (count) and bytes/sec (size) "
        f"in the last {THROUGHPUT_SECONDS} seconds"
    ),
    Metric.PENDING: "Number of pending replication operations (count) and bytes (size)",
}
_PROGRESS = (
    "Number of bytes to be replicated (pending), number of bytes transferred to the destination (completed), "
    "and percentage of the object that has completed replication (progress)"
)
_OBJECT_THROUGHPUT = "Current throughput for object replication in bytes/sec (throughput)"


@dataclass(frozen=True, slots=True)
class Amount:
    """So many versions, and their bytes."""

    count: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.count + other.count, self.bytes + other.bytes)


NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class Traffic:
    """What arrived and what failed within a time. `recent` is what arrived in the time of the throughput: what the
    oldest interval holds counts by the share of it that lies within."""

    completions: Amount = NOTHING
    failures: Amount = NOTHING
    recent_count: float = 0.0
    recent_bytes: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.completions + other.completions,
            self.failures + other.failures,
            self.recent_count + other.recent_count,
            self.recent_bytes + other.recent_bytes,
        )


def traffic_of(interval: int, count: IntervalCount, now: float) -> Traffic:
    """What one interval adds."""
    share = _share_of_throughput(interval, now)
    return Traffic(
        Amount(count.completions, count.completion_bytes),
        Amount(count.failures, count.failure_bytes),
        share * count.completions,
        share * count.completion_bytes,
    )


def _share_of_throughput(interval: int, now: float) -> float:
    """The part of an interval that lies within the last `THROUGHPUT_SECONDS`."""
    begin, end = interval * INTERVAL_SECONDS, (interval + 1) * INTERVAL_SECONDS
    within = min(end, now) - max(begin, now - THROUGHPUT_SECONDS)
    return min(1.0, max(0.0, within / (min(end, now) - begin))) if now > begin else 0.0


def shown(metric: Metric, *, pending: Amount, failed: Amount, traffic: Traffic) -> Shown:
    """What has failed is backlog as well: it has not arrived."""
    match metric:
        case Metric.THROUGHPUT:
            results: Shown = {
                "count": f"{traffic.recent_count / THROUGHPUT_SECONDS:.2f}",
                "size": f"{traffic.recent_bytes / THROUGHPUT_SECONDS:.2f}",
            }
        case _:
            amount = {
                Metric.BACKLOG: pending + failed,
                Metric.PENDING: pending,
                Metric.COMPLETIONS: traffic.completions,
                Metric.FAILURES: traffic.failures,
            }[metric]
            results = {"count": amount.count, "size": amount.bytes}
    return {"description": _DESCRIPTIONS[metric], "results": results}


def shown_share(size: int, completed: int, *, has_arrived: bool) -> str:
    """An empty object has no part of its own that could arrive."""
    if has_arrived:
        return "100%"
    return f"{100 * completed // size}%" if size else "0%"


def shown_progress(size: int, completed: int, *, has_arrived: bool) -> Shown:
    return {
        "description": _PROGRESS,
        "pending": size - completed,
        "completed": completed,
        "progress": shown_share(size, completed, has_arrived=has_arrived),
    }


def shown_object_throughput(bytes_per_second: float) -> Shown:
    return {"description": _OBJECT_THROUGHPUT, "throughput": f"{bytes_per_second:.2f}"}
