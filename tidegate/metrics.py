"""Every Prometheus metric of Tidegate, and how the values of several processes become one answer.

Processes write to files in the directory named by `PROMETHEUS_MULTIPROC_DIR` (the supervisor sets it);
`render` adds them up. Callers on a hot path count in plain integers and hand over sums with `.inc(n)`;
`Durations` does the same for histograms. No label holds a key, a bucket or a client's text.
"""

from __future__ import annotations

import collections
import fcntl
import os
import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from tidegate import metric_files
from tidegate.core.errors import Unavailable

MULTIPROCESS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_FOLDED_PID = "0"
_RESTARTS = "tidegate_child_restarts"
_RESTARTS_HELP = "Processes that died and were started again, by component."

if os.environ.get(MULTIPROCESS_VARIABLE):
    values.ValueClass = metric_files.value_class(Path(os.environ[MULTIPROCESS_VARIABLE]))

# The gateway.
REQUESTS = Counter(
    "tidegate_requests_total", "S3 requests answered, by operation and status class (2xx …).", ["operation", "status"]
)
REQUEST_SECONDS = Histogram(
    "tidegate_request_seconds", "Time from a request's head to the end of its reply.", buckets=_SECONDS
)
BYTES_IN = Counter("tidegate_received_bytes_total", "Bytes of request bodies received from clients.")
BYTES_OUT = Counter("tidegate_sent_bytes_total", "Bytes of reply bodies sent to clients.")
CONNECTIONS = Gauge("tidegate_connections", "Open client connections.", multiprocess_mode="livesum")
REFUSED_CONNECTIONS = Counter(
    "tidegate_refused_connections_total",
    "Client connections refused or ended by reason: untrusted, too-many (none was idle), made-room (idle the longest).",
    ["reason"],
)
AUTH_FAILURES = Counter(
    "tidegate_auth_failures_total", "Requests refused for who sent them, by S3 error code.", ["code"]
)
BACKEND_WAKES = Counter("tidegate_backend_wakes_total", "Sleeping pools that a request asked to wake.")
BACKEND_WAKE_FAILURES = Counter("tidegate_backend_wake_failures_total", "Wakes that ended without a backend.")
BACKEND_WAKE_SECONDS = Histogram(
    "tidegate_backend_wake_seconds", "Time a wake took, successful or not.", buckets=_SECONDS
)
BACKEND_PURGES = Counter("tidegate_backend_purges_total", "Backends given up because they did not answer in time.")
BACKEND_ERRORS = Counter(
    "tidegate_backend_errors_total",
    "Requests that failed at the backend, by kind (connect, timeout, broken).",
    ["kind"],
)

# The metadata log.
JOURNAL_BATCHES = Counter("tidegate_journal_batches_total", "Batches appended to the metadata log.")
JOURNAL_EVENTS = Counter("tidegate_journal_events_total", "Events appended to the metadata log.")
JOURNAL_FAILURES = Counter("tidegate_journal_failures_total", "Batches that could not be appended.")
WRITES_REFUSED = Gauge(
    "tidegate_writes_refused",
    "Gateway processes that refuse all changes, because they could not be logged or there is too little space.",
    multiprocess_mode="livesum",
)
JOURNAL_SECONDS = Histogram("tidegate_journal_seconds", "Time to append one batch.", buckets=_SECONDS)

# Workers: everything that consumes a topic. How far a group is behind is `tidegate_topic_lag`.
WORKER_MESSAGES = Counter(
    "tidegate_worker_messages_total",
    "Messages that workers saw to, by topic, group and result: done, retried, dead-lettered, postponed; redelivered "
    "counts those of them that an earlier process had begun.",
    ["topic", "group", "result"],
)
WORKER_BATCH_SECONDS = Histogram(
    "tidegate_worker_batch_seconds",
    "Time that a worker took for a batch of messages, from its delivery to its acknowledgement.",
    ["topic", "group"],
    buckets=_SECONDS,
)

# Lifecycle. The label `bucket` holds the bucket's uid, not its name.
LIFECYCLE_DISPATCH = Counter(
    "tidegate_s3_lifecycle_dispatch_total",
    "Lifecycle actions on objects, by bucket, action kind and outcome.",
    ["bucket", "kind", "outcome"],
)
LIFECYCLE_LIMITER_WAIT = Histogram(
    "tidegate_s3_lifecycle_dispatch_limiter_wait_seconds",
    "Time that a batch of deletes waited for the rate limit.",
    buckets=_SECONDS,
)
LIFECYCLE_CURSOR = Gauge(
    "tidegate_s3_lifecycle_cursor_min_ts_ns",
    "How far passes have come in the least advanced bucket of a shard; now minus this is the lag.",
    ["shard"],
    multiprocess_mode="livemostrecent",
)
LIFECYCLE_LAST_WALKED = Gauge(
    "tidegate_s3_lifecycle_daily_run_last_walked_ns",
    "The last walk of the bucket of a shard that was walked the longest time ago.",
    ["shard"],
    multiprocess_mode="livemostrecent",
)
LIFECYCLE_SHARD_SECONDS = Gauge(
    "tidegate_s3_lifecycle_daily_run_shard_duration_seconds",
    "Time that the last pass took in a shard.",
    ["shard"],
    multiprocess_mode="livemostrecent",
)
LIFECYCLE_EVENTS = Counter(
    "tidegate_s3_lifecycle_daily_run_events_scanned_total",
    "Events of the metadata log that passes looked at, by shard.",
    ["shard"],
)
LIFECYCLE_BUCKET_LAG = Gauge(
    "tidegate_s3_lifecycle_bucket_lag_seconds",
    "How far passes are behind in a bucket.",
    ["bucket"],
    multiprocess_mode="livemostrecent",
)
LIFECYCLE_LISTINGS = Counter(
    "tidegate_s3_lifecycle_listings_total",
    "Buckets listed by the listing engine, by how that ended (done, given-up), and pages asked for later (postponed).",
    ["bucket", "end"],
)
LIFECYCLE_PASSES = Counter(
    "tidegate_s3_lifecycle_passes_total",
    "Passes that ended, by how (ok, blocked, timeout, failed, interrupted).",
    ["status"],
)
LIFECYCLE_ROUNDS = Counter(
    "tidegate_s3_lifecycle_rounds_total",
    "Rounds of the conductor, by what it did (started, skipped for a backlog, skipped for a running pass).",
    ["result"],
)
LIFECYCLE_STOPPED = Gauge(
    "tidegate_s3_lifecycle_stopped",
    "1 while an operator has stopped all of lifecycle, and otherwise 0.",
    multiprocess_mode="livemostrecent",
)
LIFECYCLE_CLOCK_PROBLEMS = Gauge(
    "tidegate_s3_lifecycle_clock_problems",
    "Machines that begin no pass because their clock is not believed.",
    multiprocess_mode="livemostrecent",
)

# Two-phase deletion. The label `data` says where the data lies: in a pool's own `store`, or in a `location`.
DELETION_SENT = Counter(
    "tidegate_deletion_sent_total", "Pending deletes sent to the topic (first phase), by where the data lies.", ["data"]
)
DELETION_RECEIVED = Counter(
    "tidegate_deletion_received_total", "Pending deletes that the second phase received, each retry counted."
)
DELETION_DELETED = Counter("tidegate_deletion_deleted_total", "Data that was deleted, by where it lay.", ["data"])
DELETION_FAILED = Counter(
    "tidegate_deletion_failed_total", "Tries to delete data that failed, by where it lies.", ["data"]
)
DELETION_ACKNOWLEDGED = Counter("tidegate_deletion_acknowledged_total", "Pending deletes that were acknowledged.")
DELETION_MAX_RETRIES = Counter(
    "tidegate_deletion_max_retries_total", "Pending deletes that failed at their last retry and became dead letters."
)
DELETION_NOT_DELETED = Counter(
    "tidegate_deletion_not_deleted_total",
    "Pending deletes that ended without a delete and are not tried again, by outcome: in-use, not-matched, not-there, "
    "incomplete.",
    ["outcome"],
)

# Movement.
MOVEMENT_COPIES = Counter(
    "tidegate_movement_copies_total",
    "Copies by location (back: to the pool's own store) and result (copied, changed, gone, refused, failed, retried).",
    ["location", "result"],
)
MOVEMENT_BYTES = Counter("tidegate_movement_bytes_total", "Bytes copied, by location.", ["location"])
MOVEMENT_SECONDS = Histogram(
    "tidegate_movement_copy_seconds",
    "Time that a copy took, by location.",
    ["location"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800, float("inf")),
)
MOVEMENT_IN_PROGRESS = Gauge(
    "tidegate_movement_copies_in_progress", "Copies under way, by location.", ["location"], multiprocess_mode="livesum"
)

TRASH_KEPT = Counter(
    "tidegate_trash_kept_total",
    "Versions kept before they were deleted, by trash location.",
    ["location"],
)
TRASH_UNDELETED = Counter(
    "tidegate_trash_undeleted_total",
    "Versions that were to be brought back from the trash, by outcome (restored, kept, gone, failed).",
    ["outcome"],
)

# Replication, as the tables show it when the metrics are asked for, at most ten seconds ago.
REPLICATION_PENDING = Gauge(
    "tidegate_replication_pending",
    "Versions that are still to be replicated, by site.",
    ["site"],
    multiprocess_mode="livemostrecent",
)
REPLICATION_FAILED = Gauge(
    "tidegate_replication_failed",
    "Versions whose replication has failed after the last try, by site.",
    ["site"],
    multiprocess_mode="livemostrecent",
)
REPLICATION_OLDEST = Gauge(
    "tidegate_replication_oldest_pending_seconds",
    "The recovery point: how long ago the oldest version was written that is still to be replicated, by site; 0: none.",
    ["site"],
    multiprocess_mode="livemostrecent",
)

# Replication, as the replicators do it.
REPLICATION_COMPLETIONS = Counter(
    "tidegate_replication_completions_total", "Versions, and tags of versions, that arrived, by site.", ["site"]
)
REPLICATION_FAILURES = Counter(
    "tidegate_replication_failures_total", "Versions that failed after the last try, by site.", ["site"]
)
REPLICATION_RETRIES = Counter(
    "tidegate_replication_retries_total", "Tries that failed and are made again later, by site.", ["site"]
)
REPLICATION_BYTES = Counter("tidegate_replication_bytes_total", "Bytes replicated, by site.", ["site"])
REPLICATION_SECONDS = Histogram(
    "tidegate_replication_seconds",
    "Time from when a version was written to when it had arrived, by site.",
    ["site"],
    buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, float("inf")),
)
REPLICATION_IN_PROGRESS = Gauge(
    "tidegate_replication_in_progress",
    "Keys whose versions are under way, by site.",
    ["site"],
    multiprocess_mode="livesum",
)

# Pools, gateways and topics, as the tables show them when the metrics are asked for.
POOLS = Gauge("tidegate_pools", "Pools, by state.", ["state"], multiprocess_mode="livemostrecent")
RUNNING_POOLS = Gauge("tidegate_running_pools", "Pools whose backend runs.", multiprocess_mode="livemostrecent")
GATEWAYS = Gauge("tidegate_gateways", "Registered gateway processes.", multiprocess_mode="livemostrecent")
TOPIC_RECORDS = Gauge(
    "tidegate_topic_records", "Records held by a topic.", ["topic"], multiprocess_mode="livemostrecent"
)
TOPIC_LAG = Gauge(
    "tidegate_topic_lag",
    "Messages a consumer group has not finished.",
    ["topic", "group"],
    multiprocess_mode="livemostrecent",
)

# The service.
CHILD_RESTARTS = Counter(f"{_RESTARTS}_total", _RESTARTS_HELP, ["component"])  # counted by `retire`
DROPPED_LINES = Counter(
    "tidegate_dropped_log_lines_total",
    "Lines that could not be written, for lack of space or of a reader, by log (access, process).",
    ["log"],
)
API_REQUESTS = Counter("tidegate_api_requests_total", "Requests to the HTTP API, by status class.", ["status"])


class Durations:
    """Observations for a histogram kept in plain integers until `flush`: cheap enough for every request.

    For one thread.
    """

    __slots__ = ("_bounds", "_counts", "_histogram", "_sum")

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._bounds = list(histogram._upper_bounds)
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def flush(self) -> None:
        for index, count in enumerate(self._counts):
            if count:
                self._histogram._buckets[index].inc(count)
                self._counts[index] = 0
        if self._sum:
            self._histogram._sum.inc(self._sum)
            self._sum = 0.0


def render() -> bytes:
    """All metrics in Prometheus' text format: of every process where there is a shared directory."""
    directory = os.environ.get(MULTIPROCESS_VARIABLE)
    if not directory:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=directory)
    with _locked(Path(directory), fcntl.LOCK_SH):
        return generate_latest(registry)


def retire(directory: Path, pid: int, component: str) -> None:
    """Counts a dead process, and folds its counts into one file: no total is lost and no files pile up.

    Raises `Unavailable` when the disk does not take it: it has to be called again.
    """
    death = mmap_key(_RESTARTS, f"{_RESTARTS}_total", ["component"], [component], _RESTARTS_HELP)
    try:
        with _locked(directory, fcntl.LOCK_EX):
            mark_process_dead(pid, path=str(directory))
            _fold(directory, "histogram", pid, {})
            _fold(directory, "counter", pid, {death: 1.0})
    except OSError as error:
        raise Unavailable(f"the metrics in {directory} cannot be written: {error.strerror}") from None


def _fold(directory: Path, kind: str, pid: int, more: dict[str, float]) -> None:
    folded, dead = directory / f"{kind}_{_FOLDED_PID}.db", directory / f"{kind}_{pid}.db"
    totals: collections.Counter[str] = collections.Counter()
    for found in (_values(folded), _values(dead), more):
        totals.update(found)
    if totals:
        metric_files.store(folded, totals.items())
    dead.unlink(missing_ok=True)


def _values(file: Path) -> dict[str, float]:
    """Reads a metrics file. A file that is missing or unfinished has no values."""
    try:
        return {key: value for key, value, _, _ in MmapedDict.read_all_values_from_file(str(file))}
    except (FileNotFoundError, struct.error, RuntimeError, UnicodeDecodeError):
        return {}


@contextmanager
def _locked(directory: Path, mode: int) -> Iterator[None]:
    """Locks the directory, so that readers see the counts of a dead process exactly once while they are folded."""
    with (directory / "lock").open("a") as file:
        fcntl.flock(file, mode)
        yield
