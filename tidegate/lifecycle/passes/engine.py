"""An engine: runs passes with one planner, and says how each went."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event as Flag

from tidegate.core.errors import TidegateError
from tidegate.lease import KeptLease
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.acting.stop_switch import StopReader
from tidegate.lifecycle.buckets.bucket_list import ListedBucket
from tidegate.lifecycle.passes.pass_log import tell
from tidegate.lifecycle.passes.pass_records import PassOrder, PassProgress, PassReport, PassReports, PassStatus
from tidegate.lifecycle.passes.pass_steps import Pass, PassResult
from tidegate.lifecycle.passes.pass_watch import CutShort, PassWatch
from tidegate.lifecycle.passes.plan_files import PLAN, PLANS
from tidegate.lifecycle.passes.planner import OpenPlanner, PassContext, Planner

_MOST_PLANS = 30


class PassEngine:
    """The planner is opened by the first pass that has a bucket to look after, and not before."""

    def __init__(self, name: str, open_planner: OpenPlanner, context: PassContext, *, stop: Flag) -> None:
        self._name = name
        self._open_planner = open_planner
        self._context = context
        self._stop = stop
        self._reports = PassReports(context.tables)
        self._stops = StopReader(context.tables)
        self._planner: Planner | None = None
        self._last: PassReport | None = None

    def run(self, order: PassOrder, buckets: Sequence[ListedBucket], lock: KeptLease) -> PassReport:
        """From beginning to end. Trouble is in the report, and the next pass tries again."""
        ends = AuditTrail(self._context.topics).ends()
        report = PassReport(
            order.id, self._name, order.trigger, order.now_ns, len(buckets), ends, order.bucket, order.dry_run
        )
        if not buckets and not order.is_requested:
            return report.ended(order.now_ns, PassStatus.OK)
        self._reports.put(report)
        PassProgress(order.id, "starting", time.time_ns(), buckets=len(buckets)).store(self._context.tables)
        result: PassResult | None = None
        try:
            result = self._result(order, report, buckets, lock) if buckets else None
            ended = _ended(report, result)
        except CutShort as reason:
            ended = report.ended(time.time_ns(), reason.status, problem=str(reason))
        except TidegateError as error:
            ended = report.ended(time.time_ns(), PassStatus.FAILED, problem=str(error))
        self._close(ended)
        tell(ended, result.cursors if result is not None else {}, self._last)
        self._last = ended
        return ended

    def between(self, now: float) -> None:
        """While no pass runs."""
        if self._planner is not None:
            self._planner.rest()

    def cancel(self) -> None:
        """Ends what runs; for another thread."""
        if self._planner is not None:
            self._planner.cancel()

    def kill(self) -> None:
        """Ends everything at once; for another thread."""
        if self._planner is not None:
            self._planner.kill()

    def _result(
        self, order: PassOrder, report: PassReport, buckets: Sequence[ListedBucket], lock: KeptLease
    ) -> PassResult:
        if self._planner is None:
            self._planner = self._open_planner(self._context)
        planner, seconds = self._planner, self._context.settings.lifecycle.max_runtime_minutes * 60
        stopped = self._stopped_since(order)
        with PassWatch(stop=self._stop, lock=lock, seconds=seconds, cancel=planner.cancel, is_stopped=stopped) as watch:
            try:
                return Pass(self._context, planner, order, report, watch).run(buckets)
            except TidegateError:
                watch.check()  # a job that was cancelled fails: the reason is another one
                raise

    def _stopped_since(self, order: PassOrder) -> Callable[[], bool]:
        """A dry run does nothing that could be stopped."""
        begun = self._stops.current().number

        def is_stopped() -> bool:
            stops = self._stops.current()
            return not order.dry_run and (stops.everything or stops.number != begun)

        return is_stopped

    def _close(self, ended: PassReport) -> None:
        """Of passes in a row that say the same only the last one is kept: rounds may come every few seconds."""
        self._reports.put(ended)
        PassProgress.clear(self._context.tables)
        last = self._last
        if last is not None and last.trigger == ended.trigger == "schedule" and ended.repeats(last):
            self._reports.remove(last.id)
        self._reports.prune()
        self._remove_plans()

    def _remove_plans(self) -> None:
        """Plans of passes whose report is gone, and the oldest of the others: they may be large."""
        folders = sorted(self._context.data.joinpath(PLANS).glob("*"))
        if not folders:
            return
        known = set(self._reports.ids())
        kept = [folder for folder in folders if folder.name in known and (folder / PLAN).is_dir()][-_MOST_PLANS:]
        for folder in set(folders) - set(kept):
            shutil.rmtree(folder, ignore_errors=True)


def _ended(report: PassReport, result: PassResult | None) -> PassReport:
    if result is None:
        return report.ended(time.time_ns(), PassStatus.OK)
    landed = replace(report, landed_events=result.landed_events)
    return landed.ended(time.time_ns(), result.status, result.details, result.problem)
