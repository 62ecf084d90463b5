"""The engine that plans passes on Spark: keeps the session warm, and says how each pass went.

Spark is loaded and started with the first pass that has a bucket to look after, and not before.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING

from tidegate.core.errors import TidegateError
from tidegate.lease import KeptLease
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.acting.stop_switch import StopReader
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import ListedBucket
from tidegate.lifecycle.passes.pass_log import tell
from tidegate.lifecycle.passes.pass_records import PassOrder, PassProgress, PassReport, PassReports, PassStatus
from tidegate.lifecycle.passes.pass_watch import CutShort, PassWatch
from tidegate.ports import Tables, Topics
from tidegate.settings import Settings

if TYPE_CHECKING:
    from tidegate.lifecycle.passes.spark_pass import PassResult
    from tidegate.pipeline.session.warm_session import WarmSession

NAME = "spark"
PLANS = "passes"
PLAN = "plan"
_MOST_PLANS = 30

logger = logging.getLogger(__name__)


class SparkEngine:
    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        stores: Stores,
        settings: Settings,
        data: Path,
        url: str,
        *,
        stop: Flag,
    ) -> None:
        self._tables = tables
        self._topics = topics
        self._stores = stores
        self._settings = settings
        self._data = data
        self._url = url
        self._stop = stop
        self._reports = PassReports(tables)
        self._stops = StopReader(tables)
        self._warm: WarmSession | None = None
        self._last: PassReport | None = None

    def run(self, order: PassOrder, buckets: Sequence[ListedBucket], lock: KeptLease) -> PassReport:
        """From beginning to end. Trouble is in the report, and the next pass tries again."""
        report = PassReport(
            order.id, NAME, order.trigger, order.now_ns, len(buckets), AuditTrail(self._topics).ends(), order.bucket,
            order.dry_run,
        )  # fmt: skip
        if not buckets and not order.is_requested:
            return report.ended(order.now_ns, PassStatus.OK)
        self._reports.put(report)
        PassProgress(order.id, "starting", time.time_ns(), buckets=len(buckets)).store(self._tables)
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
        """Ends the session when no pass came for long."""
        if self._warm is not None and self._warm.end_if_idle(self._settings.spark.idle_minutes * 60):
            logger.info("the Spark session was idle and is ended; the next pass starts another")

    def cancel(self) -> None:
        """Ends the job that runs; for another thread."""
        if self._warm is not None:
            self._warm.cancel()

    def kill(self) -> None:
        """Ends Spark at once; for another thread."""
        if self._warm is not None:
            self._warm.kill()

    def _result(
        self, order: PassOrder, report: PassReport, buckets: Sequence[ListedBucket], lock: KeptLease
    ) -> PassResult:
        # Only here: Spark takes long to load, and services without rules have no use for it.
        from tidegate.lifecycle.passes.spark_pass import PassContext, SparkPass
        from tidegate.pipeline.session.warm_session import WarmSession, spark_errors

        if self._warm is None:
            self._warm = WarmSession(self._settings, self._data)
        warm, seconds = self._warm, self._settings.lifecycle.max_runtime_minutes * 60
        around = PassContext(self._tables, self._topics, self._stores, self._settings, self._data, self._url)
        is_stopped = self._stopped_since(order)
        with PassWatch(stop=self._stop, lock=lock, seconds=seconds, cancel=warm.cancel, is_stopped=is_stopped) as watch:
            try:
                with spark_errors():
                    return SparkPass(around, warm.get(), order, report, watch).run(buckets)
            except TidegateError:
                watch.check()  # a job that was cancelled fails: the reason is another one
                raise
            finally:
                warm.touch()

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
        PassProgress.clear(self._tables)
        last = self._last
        if last is not None and last.trigger == ended.trigger == "schedule" and ended.repeats(last):
            self._reports.remove(last.id)
        self._reports.prune()
        self._remove_plans()

    def _remove_plans(self) -> None:
        """Plans of passes whose report is gone, and the oldest of the others: they may be large."""
        folders = sorted(self._data.joinpath(PLANS).glob("*"))
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
