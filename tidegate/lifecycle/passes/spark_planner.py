"""The planner on Spark: from the metadata log, and from listings where the log does not tell enough.

The session is started by the first pass that has a bucket to look after, and ended when none came for long. This module
takes long to load: a service without rules has no use for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tidegate import metrics
from tidegate.core.errors import TidegateError
from tidegate.core.lifecycle.due import REAL_DAY_SECONDS, day_length_ns
from tidegate.core.lifecycle.rules import RuleAction
from tidegate.lifecycle.buckets.cursor_store import CursorStore
from tidegate.lifecycle.passes.bucket_pass import BucketPass, PassClock
from tidegate.lifecycle.passes.listing_evaluator import common_prefix
from tidegate.lifecycle.passes.pass_watch import PassWatch
from tidegate.lifecycle.passes.planner import Landing, PassContext
from tidegate.pipeline.log.landing import land
from tidegate.pipeline.log.log_table import LogTable
from tidegate.pipeline.plan.actions import RuledBucket, ScopedAction
from tidegate.pipeline.plan.bucket_plan import Published
from tidegate.pipeline.plan.planning import Replayed, Walked, last_changes, make_plan
from tidegate.pipeline.plan.task_publishing import publish_plan
from tidegate.pipeline.session.warm_session import WarmSession, spark_errors
from tidegate.pipeline.walk.inventory import Choice, choose
from tidegate.pipeline.walk.listing_source import WalkedBucket
from tidegate.pipeline.walk.tag_needs import tag_needs

_MOST_FILES_OF_A_DAY = 32

logger = logging.getLogger(__name__)


class SparkPlanner:
    def __init__(self, context: PassContext) -> None:
        self._context = context
        self._table = LogTable(context.data)
        self._warm = WarmSession(context.settings, context.data)

    def land(self, *, now_ns: int, retention_ns: int) -> Landing:
        context, begun_ns = self._context, time.time_ns()
        with spark_errors():
            landing = land(
                self._warm.get(),
                self._table,
                context.topics,
                context.settings.metalog.topic,
                now_ns=now_ns,
                before_commit=CursorStore(context.tables).set_back,
            )
            for shard, events in landing.by_shard.items():
                metrics.LIFECYCLE_EVENTS.labels(f"{shard:02d}").inc(events)
            if retention_ns:
                self._table.retain(_retained_since(now_ns, retention_ns))
            return Landing(begun_ns, self._table.manifest().horizon_ns, landing.events)

    def plan(self, buckets: Sequence[BucketPass], times: PassClock, folder: Path, watch: PassWatch) -> list[BucketPass]:
        with spark_errors():
            divided = [self._reached(bucket) for bucket in self._divided(buckets, times)]
            places = {bucket.uid: place for bucket, place in divided if place is not None}
            walked = [
                Walked(_ruled(bucket, bucket.walked_for()), places[bucket.uid])
                for bucket, place in divided
                if place is not None and bucket.is_walked
            ]
            replayed = [
                Replayed(_ruled(bucket, bucket.replayed_for()), bucket.after_ns(), places[bucket.uid])
                for bucket, place in divided
                if place is not None and bucket.is_replayed
            ]
            if not walked and not replayed:
                return [bucket for bucket, _ in divided]
            plans = make_plan(
                self._warm.get(),
                self._table,
                folder,
                now_ns=times.now_ns,
                until_ns=min(times.now_ns, times.landed_ns),
                walked=walked,
                replayed=replayed,
            )
            return [replace(bucket, plan=plans.get(bucket.uid, bucket.plan)) for bucket, _ in divided]

    def publish(self, folder: Path, *, pass_id: str, watch: PassWatch) -> Published:
        context = self._context
        with spark_errors():
            return publish_plan(self._warm.get(), folder, context.settings, context.data, pass_id=pass_id)

    def tidy(self) -> None:
        """Merges the small files of the log table. While passes come often each adds one; not every pass pays."""
        self._warm.touch()
        if not any(len(files) > _MOST_FILES_OF_A_DAY for files in self._table.manifest().days().values()):
            return
        try:
            with spark_errors():
                self._table.compact(self._warm.get())
        except TidegateError as error:  # the pass is done all the same
            logger.warning("the files of the log table could not be merged; the next pass tries again: %s", error)

    def rest(self) -> None:
        if self._warm.end_if_idle(self._context.settings.spark.idle_minutes * 60):
            logger.info("the Spark session was idle and is ended; the next pass starts another")

    def cancel(self) -> None:
        self._warm.cancel()

    def kill(self) -> None:
        self._warm.kill()

    def _divided(self, buckets: Sequence[BucketPass], times: PassClock) -> list[BucketPass]:
        """Buckets are not walked again where nothing can have become due since their last walk."""
        divided = [bucket.divided(times) for bucket in buckets]
        asked = [bucket for bucket in divided if bucket.depends_on_changes(times)]
        if not asked:
            return divided
        walked_ns = min(cursor.last_walked_ns for bucket in asked for cursor in bucket.cursors.values())
        uids = {bucket.uid for bucket in asked}
        # Clocks of machines differ a little: what is said to have happened just before the walk may have come after.
        changes = last_changes(self._warm.get(), self._table, uids, since_ns=walked_ns - times.late_ns)
        changed = {uid: changes[uid] + times.late_ns if uid in changes else 0 for uid in uids}
        return [bucket.divided(times, changed[bucket.uid]) if bucket.uid in uids else bucket for bucket in divided]

    def _reached(self, bucket: BucketPass) -> tuple[BucketPass, WalkedBucket | None]:
        """With how the bucket is reached, where something is to be looked for in it."""
        if not (bucket.is_walked or bucket.is_replayed):
            return bucket, None
        try:
            return bucket, self._place(bucket)
        except TidegateError as error:  # such as a pool that was deleted a moment ago
            return replace(bucket, problem=str(error)), None

    def _place(self, bucket: BucketPass) -> WalkedBucket:
        """Only what can matter is listed: keys with the prefix that the actions have in common."""
        access_key, secret = self._context.stores.credentials(bucket.bucket.pool)
        inventory = self._inventory(bucket) if bucket.is_walked else Choice()
        pairs = bucket.walked_for() | bucket.replayed_for()
        assert bucket.clock is not None
        return WalkedBucket(
            uid=bucket.uid,
            name=bucket.bucket.name,
            owner=bucket.owner,
            url=self._context.url,
            access_key=access_key,
            secret=secret,
            prefix=common_prefix(pairs),
            tag_needs=tag_needs(
                bucket.rules.active(), day_seconds=bucket.bucket_context.day_seconds, now_ns=bucket.clock.now_ns
            ),
            inventory=inventory.address,
            inventory_until_ns=inventory.until_ns,
        )

    def _inventory(self, bucket: BucketPass) -> Choice:
        """The report that the settings name for the bucket; without one that can be used, the bucket is listed."""
        settings = self._context.settings.lifecycle
        assert bucket.clock is not None
        choice = choose(
            settings.inventories,
            bucket.bucket.name,
            lambda: self._context.stores.of_pool(bucket.bucket.pool),
            max_age_hours=settings.inventory_max_age_hours,
            now_ns=bucket.clock.now_ns,
            log_horizon_ns=self._table.manifest().horizon_ns,
        )
        if choice.problem:
            logger.warning("bucket %s is listed: %s", bucket.bucket.name, choice.problem)
        return choice


def _ruled(bucket: BucketPass, pairs: Mapping[RuleAction, int]) -> RuledBucket:
    actions = tuple(ScopedAction(pair, shards) for pair, shards in pairs.items())
    return RuledBucket(bucket.uid, bucket.rules, bucket.bucket_context, actions, complete=bucket.is_log_complete)


def _retained_since(now_ns: int, retention_ns: int) -> int:
    """Whole days, where a day is a day."""
    since_ns, day_ns = now_ns - retention_ns, day_length_ns(REAL_DAY_SECONDS)
    return since_ns // day_ns * day_ns if retention_ns >= day_ns else since_ns
