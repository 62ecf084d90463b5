"""One pass, step by step: land, plan, publish, wait until everything is done, settle.

A planner reads and plans; workers act. Until the last step nothing is changed that a killed pass would have to undo.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tidegate import metrics
from tidegate.core.lifecycle.cursors import Cursor
from tidegate.core.lifecycle.due import REAL_DAY_SECONDS, SECOND_NS, day_length_ns
from tidegate.core.lifecycle.tasks import Outcome
from tidegate.lifecycle.buckets.bucket_list import ListedBucket, existing
from tidegate.lifecycle.buckets.cursor_store import CursorStore
from tidegate.lifecycle.passes.bucket_pass import ALL_SHARDS, BucketPass, PassClock
from tidegate.lifecycle.passes.bucket_reading import read_buckets
from tidegate.lifecycle.passes.outcomes import OutcomeTracker
from tidegate.lifecycle.passes.pass_records import BucketReport, PassOrder, PassProgress, PassReport, PassStatus, Stage
from tidegate.lifecycle.passes.pass_watch import CutShort, PassWatch
from tidegate.lifecycle.passes.plan_files import plan_folder
from tidegate.lifecycle.passes.planner import Landing, PassContext, Planner
from tidegate.lifecycle.topics import trim_finished
from tidegate.pipeline.plan.bucket_plan import Published

_LATE_SECONDS = 60.0
_SHORTEST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class PassResult:
    """How the pass ended, and where the cursors of each bucket stand now."""

    status: PassStatus
    problem: str
    details: list[BucketReport]
    cursors: dict[str, Mapping[int, Cursor]]
    landed_events: int


class Pass:
    def __init__(
        self, context: PassContext, planner: Planner, order: PassOrder, report: PassReport, watch: PassWatch
    ) -> None:
        self._context = context
        self._planner = planner
        self._order = order
        self._watch = watch
        self._folder = plan_folder(context.data, order.id)
        self._tracker = OutcomeTracker(context.topics, order.id, report.audit_ends)
        self._progress = PassProgress(order.id, "starting", time.time_ns(), buckets=report.buckets)

    def run(self, listed: Sequence[ListedBucket]) -> PassResult:
        """Raises `CutShort` or `Unavailable` where it ended before anything could be settled."""
        context, order = self._context, self._order
        self._enter("landing")
        landing = self._planner.land(now_ns=order.now_ns, retention_ns=self._retention_ns)
        # Only now: events that came late set cursors back.
        settings, configured = context.settings.lifecycle, context.settings.locations
        known = list(
            read_buckets(context.tables, context.stores, settings, listed, now_ns=order.now_ns, configured=configured)
        )
        self._enter("planning")
        buckets = self._planner.plan(known, self._clock(known, landing), self._folder, self._watch)
        if order.dry_run:
            return self._result(buckets, {bucket.uid: bucket.cursors for bucket in buckets}, landing)
        published, timeout = self._act(sum(bucket.plan.actions for bucket in buckets))
        buckets = [self._ended(bucket, published) for bucket in buckets]
        result = self._result(buckets, self._settle(buckets), landing, timeout)
        if timeout is None:
            self._planner.tidy()
        return result

    def _clock(self, buckets: Sequence[BucketPass], landing: Landing) -> PassClock:
        days = [bucket.bucket_context.day_seconds for bucket in buckets]
        # An event has its time a little before it is in the log.
        late_ns = int(min(_LATE_SECONDS, min(days, default=REAL_DAY_SECONDS) / 10) * SECOND_NS)
        return PassClock(
            now_ns=self._order.now_ns,
            landed_ns=landing.until_ns - late_ns,
            late_ns=late_ns,
            log_horizon_ns=landing.horizon_ns,
            retention_ns=self._retention_ns,
            allowance_ns=self._order.next_ns,
            walker_interval_ns=int(self._context.settings.lifecycle.walker_interval_minutes * 60 * SECOND_NS),
        )

    @property
    def _retention_ns(self) -> int:
        """How long the log is kept; 0: for ever."""
        settings = self._context.settings.lifecycle
        return settings.metalog_retention_days * day_length_ns(settings.day_seconds)

    # --- acting ----------------------------------------------------------------------------------

    def _act(self, planned: int) -> tuple[Published, CutShort | None]:
        """Publishes the plan and waits until all of it is done; the reason when the pass's time was over first. Workers
        act on what is published while the rest is being published."""
        if not planned:
            return Published(), None
        self._enter("publishing", planned=planned)
        with ThreadPoolExecutor(1, thread_name_prefix="publish") as executor:
            publishing = executor.submit(self._planner.publish, self._folder, pass_id=self._order.id, watch=self._watch)
            pause, begun_at = _SHORTEST_LOOK_SECONDS, time.monotonic()
            told_at, finished = begun_at, 0
            while not (publishing.done() and trim_finished(self._context.topics)):
                reason = self._watch.reason()
                if reason is not None:
                    if reason.status is not PassStatus.TIMEOUT:
                        raise reason
                    published = publishing.result()
                    self._tracker.catch_up()
                    return published, reason
                if publishing.done() and self._progress.stage == "publishing":
                    self._enter("acting", planned=publishing.result().total)
                self._watch.pause(pause)
                before, finished = finished, self._tracker.catch_up()
                if finished > before:  # so that the end is seen soon after it came
                    pause = (time.monotonic() - begun_at) * max(planned - finished, 0) / finished / 2
                else:
                    pause *= 2
                pause = min(max(pause, _SHORTEST_LOOK_SECONDS), _LONGEST_LOOK_SECONDS)
                if time.monotonic() - told_at >= 1:
                    told_at = time.monotonic()
                    self._tell(replace(self._progress, finished=finished))
            self._tracker.catch_up()
            return publishing.result(), None

    def _ended(self, bucket: BucketPass, published: Published) -> BucketPass:
        outcome = self._tracker.of(bucket.uid)
        for kind, count in bucket.plan.locked.items():
            metrics.LIFECYCLE_DISPATCH.labels(bucket.uid, kind, Outcome.SKIPPED_OBJECT_LOCK.value).inc(count)
        if any(bucket.plan.held.values()) or published.handed_over[bucket.uid]:
            outcome = replace(outcome, revisited=ALL_SHARDS)  # it is not known in which they are
        return replace(bucket, outcome=outcome, published=published.awaited[bucket.uid])

    # --- settling --------------------------------------------------------------------------------

    def _settle(self, buckets: Sequence[BucketPass]) -> dict[str, Mapping[int, Cursor]]:
        """Moves the cursors of the buckets past what is done, also when the time for the rest was over."""
        self._watch.check_lock()
        finished = self._tracker.finished
        self._tell(replace(self._progress, stage="settling", since_ns=time.time_ns(), finished=finished))
        tables = self._context.tables
        cursors: dict[str, Mapping[int, Cursor]] = {}
        for bucket in buckets:
            moved = bucket.cursors_after()
            cursors[bucket.uid] = moved
            if moved != bucket.cursors and existing(tables, bucket.bucket.name, bucket.uid):
                CursorStore(tables).save(bucket.uid, moved)
        return cursors

    def _result(
        self,
        buckets: Sequence[BucketPass],
        cursors: dict[str, Mapping[int, Cursor]],
        landing: Landing,
        timeout: CutShort | None = None,
    ) -> PassResult:
        details = [bucket.report(cursors[bucket.uid]) for bucket in buckets]
        status = PassStatus.BLOCKED if any(detail.is_blocked for detail in details) else PassStatus.OK
        if timeout is not None:
            status = timeout.status
        return PassResult(status, str(timeout or ""), details, cursors, landing.events)

    def _enter(self, stage: Stage, *, planned: int = 0) -> None:
        """What was planned is published also when the pass's time is over."""
        reason = self._watch.reason()
        if reason is not None and not (stage == "publishing" and reason.status is PassStatus.TIMEOUT):
            raise reason
        self._progress = replace(self._progress, stage=stage, since_ns=time.time_ns(), planned=planned)
        self._tell(self._progress)

    def _tell(self, progress: PassProgress) -> None:
        progress.store(self._context.tables)
