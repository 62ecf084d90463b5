"""How a pass went, for operators: one line in the log, and the metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidegate import metrics
from tidegate.core.lifecycle.cursors import Cursor
from tidegate.core.lifecycle.heartbeat import greatest_lag_ns, greatest_walk_age_ns, heartbeat
from tidegate.core.shards import SHARDS
from tidegate.lifecycle.passes.bucket_pass import lag_seconds
from tidegate.lifecycle.passes.pass_records import PassReport, PassStatus

logger = logging.getLogger(__name__)

Cursors = Mapping[str, Mapping[int, Cursor]]


def tell(ended: PassReport, cursors: Cursors, last: PassReport | None) -> None:
    """`cursors` by bucket uid and shard. A problem is told once, not with every pass that meets it again."""
    assert ended.ended_ns is not None
    every = [cursor for shards in cursors.values() for cursor in shards.values()]
    known = {last.problem, *(detail.problem for detail in last.details)} if last is not None else set()
    if ended.problem and ended.problem not in known:
        logger.warning("lifecycle pass %s ended as %s: %s", ended.id, ended.status, ended.problem)
    for detail in ended.details:
        if detail.problem and detail.problem not in known:
            logger.warning("bucket %s could not be dealt with: %s", detail.bucket, detail.problem)
    logger.info(
        heartbeat(
            status=ended.status.value,
            shards=SHARDS,
            errors=sum(detail.is_blocked for detail in ended.details) + (ended.status is PassStatus.FAILED),
            duration_ns=ended.ended_ns - ended.now_ns,
            lag_ns=greatest_lag_ns(every, ended.now_ns),
            walked_age_ns=greatest_walk_age_ns(every, ended.now_ns),
        )
    )
    if not ended.dry_run:
        _measure(ended, cursors)


def _measure(ended: PassReport, cursors: Cursors) -> None:
    assert ended.ended_ns is not None
    metrics.LIFECYCLE_PASSES.labels(ended.status.value).inc()
    for uid, shards in cursors.items():
        lag = lag_seconds(shards, ended.now_ns)
        if lag is not None:
            metrics.LIFECYCLE_BUCKET_LAG.labels(uid).set(lag)
    if ended.only_bucket:
        return  # what holds for a shard is the least of all buckets
    for shard in range(SHARDS):
        label = f"{shard:02d}"
        here = [shards[shard] for shards in cursors.values() if shard in shards]
        walked = [cursor.last_walked_ns for cursor in here if cursor.last_walked_ns]
        metrics.LIFECYCLE_SHARD_SECONDS.labels(label).set((ended.ended_ns - ended.now_ns) / 1e9)
        if here:
            metrics.LIFECYCLE_CURSOR.labels(label).set(min(cursor.frontier_ns for cursor in here))
        if walked:
            metrics.LIFECYCLE_LAST_WALKED.labels(label).set(min(walked))
