"""One pass on Spark, step by step: land, plan, publish, wait until everything is done, settle.

Spark reads and plans; workers act. Until the last step nothing is changed that a killed pass would have to undo.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate import metrics
from tidegate.core.errors import TidegateError
from tidegate.core.lifecycle.cursors import Cursor
from tidegate.core.lifecycle.due import REAL_DAY_SECONDS, SECOND_NS, day_length_ns
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import ListedBucket, existing
from tidegate.lifecycle.buckets.cursor_store import CursorStore
from tidegate.lifecycle.passes.bucket_work import ALL_SHARDS, PassClock
from tidegate.lifecycle.passes.outcomes import OutcomeTracker
from tidegate.lifecycle.passes.pass_planning import PassPlanner, PlannedPass
from tidegate.lifecycle.passes.pass_records import BucketReport, PassOrder, PassProgress, PassReport, PassStatus, Stage
from tidegate.lifecycle.passes.pass_watch import CutShort, PassWatch
from tidegate.lifecycle.passes.snapshot import Snapshot, take_snapshot
from tidegate.lifecycle.passes.spark_engine import PLAN, PLANS
from tidegate.lifecycle.topics import trim_finished
from tidegate.pipeline.log.landing import land
from tidegate.pipeline.log.log_table import LogTable
from tidegate.pipeline.plan.task_publishing import publish_plan
from tidegate.pipeline.plan.task_writer import Published
from tidegate.pipeline.session.spark_session import Session
from tidegate.pipeline.session.warm_session import spark_errors
from tidegate.ports import Tables, Topics
from tidegate.settings import Settings

logger = logging.getLogger(__name__)

_LATE_SECONDS = 60.0
_MOST_FILES_OF_A_DAY = 32
_SHORTEST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass works with; `url` is the S3 endpoint."""

    tables: Tables
    topics: Topics
    stores: Stores
    settings: Settings
    data: Path
    url: str

    def plan_folder(self, pass_id: str) -> Path:
        return self.data / PLANS / pass_id / PLAN


@dataclass(frozen=True, slots=True)
class PassResult:
    """How the pass ended, and where the cursors of each bucket stand now."""

    status: PassStatus
    problem: str
    details: list[BucketReport]
    cursors: dict[str, Mapping[int, Cursor]]
    landed_events: int


class SparkPass:
    def __init__(
        self, around: PassContext, session: Session, order: PassOrder, report: PassReport, watch: PassWatch
    ) -> None:
        self._around = around
        self._session = session
        self._order = order
        self._watch = watch
        self._table = LogTable(around.data)
        self._folder = around.plan_folder(order.id)
        self._endings = OutcomeTracker(around.topics, order.id, report.audit_ends)
        self._progress = PassProgress(order.id, "starting", time.time_ns(), buckets=report.buckets)
        self._landed_events = 0

    def run(self, listed: Sequence[ListedBucket]) -> PassResult:
        """Raises `CutShort` or `Unavailable` where it ended before anything could be settled."""
        around, order = self._around, self._order
        begun_ns = self._land()
        # Only now: events that came late set cursors back.
        snapshot = take_snapshot(around.tables, around.stores, around.settings.lifecycle, listed, now_ns=order.now_ns)
        times = self._clock(snapshot, begun_ns)
        self._enter("planning")
        planner = PassPlanner(self._session, self._table, around.stores, around.settings.lifecycle, around.url)
        planned = planner.plan(snapshot, times, self._folder)
        if order.dry_run:
            return self._dry_result(planned)
        published = self._publish(planned)
        timeout = self._wait_for_actions(published)
        result = self._settle(planned, published, timeout)
        if timeout is None:
            self._compact()
        return result

    # --- landing ---------------------------------------------------------------------------------

    def _land(self) -> int:
        """New records of the log go into the table; what is too old leaves it. Gives the time at which it began."""
        self._enter("landing")
        around = self._around
        begun_ns = time.time_ns()
        landing = land(
            self._session,
            self._table,
            around.topics,
            around.settings.metalog.topic,
            now_ns=self._order.now_ns,
            before_commit=CursorStore(around.tables).set_back,
        )
        self._landed_events = landing.events
        for shard, events in landing.by_shard.items():
            metrics.LIFECYCLE_EVENTS.labels(f"{shard:02d}").inc(events)
        self._watch.check()
        if self._retention_ns:
            self._table.retain(_retained_since(self._order.now_ns, self._retention_ns))
        return begun_ns

    def _clock(self, snapshot: Snapshot, landed_ns: int) -> PassClock:
        days = [bucket.terms.day_seconds for bucket in snapshot.buckets]
        # An event has its time a little before it is in the log.
        late_ns = int(min(_LATE_SECONDS, min(days, default=REAL_DAY_SECONDS) / 10) * SECOND_NS)
        return PassClock(
            now_ns=self._order.now_ns,
            landed_ns=landed_ns - late_ns,
            late_ns=late_ns,
            log_horizon_ns=self._table.manifest().horizon_ns,
            retention_ns=self._retention_ns,
            allowance_ns=self._order.next_ns,
            walker_interval_ns=int(self._around.settings.lifecycle.walker_interval_minutes * 60 * SECOND_NS),
        )

    @property
    def _retention_ns(self) -> int:
        """How long the log is kept; 0: for ever."""
        settings = self._around.settings.lifecycle
        return settings.metalog_retention_days * day_length_ns(settings.day_seconds)

    # --- acting ----------------------------------------------------------------------------------

    def _publish(self, planned: PlannedPass) -> Published:
        if not planned.actions:
            return Published()
        self._enter("publishing", planned=planned.actions)
        around = self._around
        return publish_plan(self._session, self._folder, around.settings, around.data, pass_id=self._order.id)

    def _wait_for_actions(self, published: Published) -> CutShort | None:
        """Until all are done; the reason when the pass's time was over first."""
        total = published.total
        if not total:
            return None
        self._enter("acting", planned=total)
        pause = _SHORTEST_LOOK_SECONDS
        begun_at = told_at = time.monotonic()
        finished = 0
        while not trim_finished(self._around.topics):
            reason = self._watch.reason()
            if reason is not None:
                if reason.status is not PassStatus.TIMEOUT:
                    raise reason
                self._endings.catch_up()
                return reason
            self._watch.pause(pause)
            before, finished = finished, self._endings.catch_up()
            if finished > before:  # so that the end is seen soon after it came
                pause = (time.monotonic() - begun_at) * max(total - finished, 0) / finished / 2
            else:
                pause *= 2
            pause = min(max(pause, _SHORTEST_LOOK_SECONDS), _LONGEST_LOOK_SECONDS)
            if time.monotonic() - told_at >= 1:
                told_at = time.monotonic()
                self._tell(replace(self._progress, finished=finished))
        self._endings.catch_up()
        return None

    # --- settling --------------------------------------------------------------------------------

    def _settle(self, planned: PlannedPass, published: Published, timeout: CutShort | None) -> PassResult:
        """Moves the cursors of the buckets past what is done, also when the time for the rest was over."""
        self._watch.check_lock()
        finished = self._endings.finished
        self._tell(replace(self._progress, stage="settling", since_ns=time.time_ns(), finished=finished))
        store = CursorStore(self._around.tables)
        details: list[BucketReport] = []
        cursors: dict[str, Mapping[int, Cursor]] = {}
        for work in planned.works:
            ending = self._endings.of(work.uid)
            is_unfinished = self._endings.count(work.uid) < published.awaited[work.uid]
            held = planned.plans[work.uid].held if work.uid in planned.plans else {}
            if any(held.values()) or published.handed_over[work.uid]:
                ending = replace(ending, revisited=ALL_SHARDS)
            moved = work.cursors_after(ending, is_stuck=is_unfinished or planned.is_stuck(work.uid))
            cursors[work.uid] = moved
            if moved != work.snapshot.cursors and existing(self._around.tables, work.snapshot.bucket.name, work.uid):
                store.save(work.uid, moved)
            details.append(replace(planned.report(work, work.report(moved)), outcomes=dict(ending.outcomes)))
        return self._result(planned.with_problems(details), cursors, timeout)

    def _dry_result(self, planned: PlannedPass) -> PassResult:
        details = [planned.report(work, work.report(work.snapshot.cursors)) for work in planned.works]
        return self._result(planned.with_problems(details), {work.uid: work.snapshot.cursors for work in planned.works})

    def _result(
        self,
        details: list[BucketReport],
        cursors: dict[str, Mapping[int, Cursor]],
        timeout: CutShort | None = None,
    ) -> PassResult:
        status = PassStatus.BLOCKED if any(detail.is_blocked for detail in details) else PassStatus.OK
        if timeout is not None:
            status = timeout.status
        return PassResult(status, str(timeout or ""), details, cursors, self._landed_events)

    def _compact(self) -> None:
        """Merges the small files of the log table. While passes come often each adds one; not every pass pays."""
        if not any(len(files) > _MOST_FILES_OF_A_DAY for files in self._table.manifest().days().values()):
            return
        try:
            with spark_errors():
                self._table.compact(self._session)
        except TidegateError as error:  # the pass is done all the same
            logger.warning("the files of the log table could not be merged; the next pass tries again: %s", error)

    def _enter(self, stage: Stage, *, planned: int = 0) -> None:
        self._watch.check()
        self._progress = replace(self._progress, stage=stage, since_ns=time.time_ns(), planned=planned)
        self._tell(self._progress)

    def _tell(self, progress: PassProgress) -> None:
        progress.store(self._around.tables)


def _retained_since(now_ns: int, retention_ns: int) -> int:
    """Whole days, where a day is a day."""
    since_ns, day_ns = now_ns - retention_ns, day_length_ns(REAL_DAY_SECONDS)
    return since_ns // day_ns * day_ns if retention_ns >= day_ns else since_ns
