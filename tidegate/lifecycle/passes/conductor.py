"""The conductor: starts a pass by the clock or on request, unless the last one is still at work, an operator has
stopped lifecycle, or the clock cannot be believed.

All conductors of an installation compete for each round, and one gets it. What a pass does is an engine's matter.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Event as Flag
from typing import Protocol

from tidegate import metrics
from tidegate.core.cron import Cron
from tidegate.core.errors import Conflict, InvalidInput, NotFound, Refused
from tidegate.core.lifecycle.stops import Stops
from tidegate.lease import KeptLease
from tidegate.lifecycle.acting.stop_switch import read_stops
from tidegate.lifecycle.buckets.bucket_list import ListedBucket, chosen, reconcile
from tidegate.lifecycle.buckets.time_scale import interval_seconds
from tidegate.lifecycle.passes.clock_guard import ClockGuard
from tidegate.lifecycle.passes.pass_lock import PassLock
from tidegate.lifecycle.passes.pass_records import (
    PassOrder,
    PassProgress,
    PassReport,
    PassReports,
    PassRequest,
    PassRequests,
    PassStatus,
    new_pass_id,
)
from tidegate.lifecycle.queries.control import why_refused
from tidegate.lifecycle.topics import backlog
from tidegate.ports import Tables, Topics
from tidegate.settings import LifecycleSettings

_ROUND = "lifecycle/round"
_LOCK_SECONDS = 60.0
_LOOK_SECONDS = 0.2

logger = logging.getLogger(__name__)


class Engine(Protocol):
    """Carries out a pass. Its report says how that went."""

    def run(self, order: PassOrder, buckets: Sequence[ListedBucket], lock: KeptLease) -> PassReport: ...

    def between(self, now: float) -> None:
        """What there is to do while no pass is begun; called again and again."""


class Conductor:
    """`engines` are by name. `shortage` says where there is too little disk
    space for a pass, if so: then none is begun, and one that failed is tried once more."""

    def __init__(
        self,
        tables: Tables,
        topics: Topics,
        settings: LifecycleSettings,
        engines: Mapping[str, Engine],
        *,
        shortage: Callable[[], str] = lambda: "",
    ) -> None:
        self._shortage = shortage
        self._waits_for = ""
        self._tables = tables
        self._topics = topics
        self._settings = settings
        self._cron = Cron.parse(settings.cron)
        self._reports = PassReports(tables)
        self._requests = PassRequests(tables)
        self._clock = ClockGuard(tables, settings)
        self._engines = engines

    def run_forever(self, stop: Flag) -> None:
        while not stop.is_set():
            self.run_once(time.time())
            stop.wait(_LOOK_SECONDS)

    def run_once(self, now: float) -> PassReport | None:
        """Runs a pass if one was asked for or its time has come."""
        for engine in self._engines.values():
            engine.between(now)
        self._look_for_killed(now)
        may_act = not self._clock.observe(int(now * 1e9)) and not read_stops(self._tables).everything
        if self._lacks_space():
            return None
        request = self._requests.oldest(only_dry_runs=not may_act)
        if request is not None:
            return self._serve(request, now)
        # A round that is not claimed is made up for when passes may begin again.
        if not may_act or not self._claims_round(now):
            return None
        try:
            return self.start(self._order(now), self._settings.engine)
        except Conflict as error:
            logger.info("lifecycle: this round is skipped: %s", error)
            return None

    def start(self, order: PassOrder, engine: str) -> PassReport:
        """`Conflict` while another pass is at work or none may begin, `NotFound` where the bucket has no rules to carry
        out, `Refused` where it is stopped by itself."""
        refused = "" if order.dry_run else why_refused(self._tables, self._settings, order.now_ns)
        if refused:
            raise Conflict(refused)
        lock = PassLock(self._tables, seconds=_LOCK_SECONDS)
        if not lock.try_acquire():
            metrics.LIFECYCLE_ROUNDS.labels("skipped-pass").inc()
            raise Conflict("a pass is running")
        with KeptLease(lock, seconds=_LOCK_SECONDS) as kept:
            self._close_interrupted(order.now_ns)
            actions = backlog(self._topics)
            if actions:
                metrics.LIFECYCLE_ROUNDS.labels("skipped-backlog").inc()
                raise Conflict(f"{actions} actions of the last pass are not finished")
            if engine not in self._engines:
                raise InvalidInput(f"there is no engine {engine!r}; there are {', '.join(sorted(self._engines))}")
            if order.is_requested:
                reconcile(self._tables)
            buckets = self._chosen(order)
            metrics.LIFECYCLE_ROUNDS.labels("started").inc()
            report = self._engines[engine].run(order, buckets, kept)
        if report.status is PassStatus.INTERRUPTED or (report.status is PassStatus.FAILED and self._shortage()):
            self._resume(report)
        return report

    def _chosen(self, order: PassOrder) -> list[ListedBucket]:
        """Those that are stopped by themselves are left out, where something would be done to them."""
        stops = Stops() if order.dry_run else read_stops(self._tables)
        buckets = chosen(self._tables, order.bucket)
        left = [bucket for bucket in buckets if not stops.why_stopped(bucket.uid)]
        if order.bucket and not left:
            raise Refused(f"lifecycle is stopped in bucket {order.bucket}")
        return left

    def _lacks_space(self) -> bool:
        shortage = self._shortage()
        if bool(shortage) != bool(self._waits_for):
            logger.warning(
                "lifecycle: %s", f"passes wait: {shortage}" if shortage else "there is space for passes again"
            )
        self._waits_for = shortage
        return bool(shortage)

    def _serve(self, request: PassRequest, now: float) -> PassReport | None:
        """The pass that was asked for; None while it must wait."""
        if self._reports.get(request.id) is not None:  # it ran when the process was killed
            self._requests.done(request.id)
            return None
        order = replace(
            self._order(now), id=request.id, trigger="request", bucket=request.bucket, dry_run=request.dry_run
        )
        engine = request.engine or self._settings.engine
        try:
            report = self.start(order, engine)
        except Conflict as error:
            logger.debug("lifecycle: the pass %s waits: %s", request.id, error)
            return None
        except (NotFound, InvalidInput, Refused) as error:
            begun = PassReport(
                order.id, engine, order.trigger, order.now_ns, 0, only_bucket=order.bucket, dry_run=order.dry_run
            )
            report = begun.ended(order.now_ns, PassStatus.FAILED, problem=str(error))
            self._reports.put(report)
        self._requests.done(request.id)
        return report

    def _look_for_killed(self, now: float) -> None:
        """A pass that left its progress and holds no lock was killed."""
        if PassProgress.load(self._tables) is None:
            return
        lock = PassLock(self._tables, seconds=_LOCK_SECONDS)
        if lock.try_acquire():
            try:
                self._close_interrupted(int(now * 1e9))
            finally:
                lock.release()

    def _close_interrupted(self, now_ns: int) -> None:
        """With the lock held: whatever pass has a progress runs no more."""
        progress = PassProgress.load(self._tables)
        if progress is None:
            return
        report = self._reports.get(progress.id)
        if report is not None and report.status is PassStatus.RUNNING:
            problem = f"it was killed while {progress.stage}; the next pass goes on"
            self._reports.put(report.ended(now_ns, PassStatus.INTERRUPTED, problem=problem))
            logger.warning("lifecycle pass %s: %s", report.id, problem)
            self._resume(report)
        PassProgress.clear(self._tables)

    def _resume(self, report: PassReport) -> None:
        """What was to be done in a round that comes once a day should not wait for a day. It is tried once more: a
        pass that kills its process every time must not do so for ever."""
        if report.trigger == "schedule" and not interval_seconds(self._tables, self._settings):
            self._requests.submit(engine=report.engine, now=report.now_ns / 1e9)

    def _claims_round(self, now: float) -> bool:
        """True for the one conductor that writes down the beginning of a round whose time has come."""
        interval = interval_seconds(self._tables, self._settings)
        text = self._tables.get(_ROUND)
        last = float(text) if text is not None else None
        if last is not None and last > now:  # the clock was set back
            self._tables.compare_and_set(_ROUND, text, f"{now:.3f}")
            return False
        if last is None and not interval:
            self._tables.put_if_absent(_ROUND, f"{now:.3f}")
            return False
        if last is not None and now < self._following(last, interval):
            return False
        return self._tables.compare_and_set(_ROUND, text, f"{now:.3f}")

    def _order(self, now: float) -> PassOrder:
        interval = interval_seconds(self._tables, self._settings)
        following = self._following(now, interval)
        next_ns = int((self._following(following, interval) - following) * 1e9)
        return PassOrder(new_pass_id(int(now * 1e9)), "schedule", int(now * 1e9), next_ns)

    def _following(self, last: float, interval: float) -> float:
        following = last + interval if interval else self._cron.next_after(last)
        assert following is not None  # Cron.parse refuses what never comes
        return following
