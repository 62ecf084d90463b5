"""The conductor: starts a pass by the clock, unless the last one is still at work.

It publishes one bucket task per bucket on the list; everything else follows from those. All conductors of an
installation compete for each round, and one gets it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from threading import Event as Flag

from tidegate import metrics
from tidegate.core.cron import Cron
from tidegate.core.errors import Conflict, NotFound
from tidegate.core.lifecycle.tasks import BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC, BucketTask
from tidegate.lifecycle.audit_trail import AuditTrail
from tidegate.lifecycle.bucket_list import BucketList, ListedBucket, existing
from tidegate.lifecycle.passes import PassLock, PassReport, PassReports, new_pass_id
from tidegate.lifecycle.topics import backlog
from tidegate.ports import Record, Tables, Topics
from tidegate.settings import LifecycleSettings

ENGINE = "listing"
_ROUND = "lifecycle/round"
_LOCK_SECONDS = 60.0
_LOOK_SECONDS = 0.5
_APPEND = 1000

logger = logging.getLogger(__name__)


class Conductor:
    def __init__(self, tables: Tables, topics: Topics, settings: LifecycleSettings) -> None:
        self._tables = tables
        self._topics = topics
        self._interval = settings.interval_seconds
        self._cron = Cron.parse(settings.cron)
        self._list = BucketList(tables)
        self._reports = PassReports(tables)
        self._trail = AuditTrail(topics)

    def run_forever(self, stop: Flag) -> None:
        while not stop.wait(_LOOK_SECONDS):
            self.run_once(time.time())

    def run_once(self, now: float) -> PassReport | None:
        """Closes the books of a pass that has come to its end, and starts one if its time has come."""
        self.close_ended(now)
        if not self._claims_round(now):
            return None
        try:
            return self.start(now, trigger="schedule")
        except Conflict as error:
            logger.info("lifecycle: this round is skipped: %s", error)
            return None

    def start(self, now: float, *, trigger: str, bucket: str = "") -> PassReport:
        """Publishes the tasks of a pass, for one bucket or for all. `Conflict` while another pass is at work."""
        lock = PassLock(self._tables, seconds=_LOCK_SECONDS)
        if not lock.try_acquire():
            metrics.LIFECYCLE_ROUNDS.labels("skipped-pass").inc()
            raise Conflict("a pass is running")
        try:
            listings, actions = backlog(self._topics)
            if listings or actions:
                metrics.LIFECYCLE_ROUNDS.labels("skipped-backlog").inc()
                raise Conflict(f"{listings} listings and {actions} actions of the last pass are not finished")
            self.close_ended(now)
            report = self._publish(now, trigger, self._chosen(bucket))
        finally:
            lock.release()
        metrics.LIFECYCLE_ROUNDS.labels("started").inc()
        return report

    def close_ended(self, now: float) -> None:
        """Writes into the report of a pass that has come to its end what it did."""
        report = self._reports.running()
        if report is None:
            return
        ends = {topic: self._topics.bounds(topic) for topic in (BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC)}
        if any(backlog(self._topics)):
            return
        self._close(report, now)
        # Everything before these ends was finished when the backlog was looked at.
        for topic, bounds in ends.items():
            for partition, (first, following) in enumerate(bounds):
                if following > first:
                    self._topics.trim(topic, partition, following)

    def _close(self, report: PassReport, now: float) -> None:
        records = self._trail.since(report.audit_ends)
        outcomes = Counter(record.outcome.value for record in records if record.task.pass_id == report.id)
        self._reports.end(report.ended(int(now * 1e9), dict(outcomes)))
        if outcomes:
            counts = " ".join(f"{outcome}={count}" for outcome, count in sorted(outcomes.items()))
            logger.info("lifecycle pass %s: buckets=%d %s", report.id, report.buckets, counts)

    def _claims_round(self, now: float) -> bool:
        """True for the one conductor that writes down the beginning of a round whose time has come."""
        text = self._tables.get(_ROUND)
        last = float(text) if text is not None else None
        if last is not None and last > now:  # the clock was set back
            self._tables.compare_and_set(_ROUND, text, f"{now:.3f}")
            return False
        if last is None and not self._interval:
            self._tables.put_if_absent(_ROUND, f"{now:.3f}")
            return False
        if last is not None and now < self._following(last):
            return False
        return self._tables.compare_and_set(_ROUND, text, f"{now:.3f}")

    def _following(self, last: float) -> float:
        following = last + self._interval if self._interval else self._cron.next_after(last)
        assert following is not None  # Cron.parse refuses what never comes
        return following

    def _chosen(self, name: str) -> list[ListedBucket]:
        """The buckets on the list that still exist; the entries of others are removed."""
        chosen = []
        for bucket in self._list.all():
            if existing(self._tables, bucket.name, bucket.uid) is None:
                self._list.remove(bucket)
            elif not name or bucket.name == name:
                chosen.append(bucket)
        if name and not chosen:
            raise NotFound(f"bucket {name} has no lifecycle rules that are enabled")
        return chosen

    def _publish(self, now: float, trigger: str, buckets: list[ListedBucket]) -> PassReport:
        now_ns = int(now * 1e9)
        report = PassReport(new_pass_id(now_ns), ENGINE, trigger, now_ns, len(buckets), self._trail.ends())
        tasks = [BucketTask(bucket.owner, bucket.name, bucket.uid, report.id, now_ns) for bucket in buckets]
        for start in range(0, len(tasks), _APPEND):
            stretch = tasks[start : start + _APPEND]
            self._topics.append(BUCKET_TASKS_TOPIC, [Record(task.bucket_uid, task.to_bytes()) for task in stretch])
        if tasks:
            # Only now: a pass that is noted down and has no backlog has come to its end.
            self._reports.begin(report)
        return report
