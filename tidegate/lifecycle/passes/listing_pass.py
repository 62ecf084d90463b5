"""The listing engine's passes: one bucket task per bucket, from which everything else follows.

Nobody waits for their end. It has come when no task is left, and is then written into the report.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.tasks import BUCKET_TASKS_TOPIC, BucketTask
from tidegate.lease import KeptLease
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.acting.stop_switch import read_stops
from tidegate.lifecycle.buckets.bucket_list import ListedBucket
from tidegate.lifecycle.passes.pass_records import BucketReport, PassOrder, PassReport, PassReports, PassStatus
from tidegate.lifecycle.topics import trim_finished
from tidegate.ports import Record, Tables, Topics

NAME = "listing"
_APPEND = 1000

logger = logging.getLogger(__name__)


class ListingEngine:
    def __init__(self, tables: Tables, topics: Topics) -> None:
        self._tables = tables
        self._topics = topics
        self._reports = PassReports(tables)
        self._trail = AuditTrail(topics)

    def run(self, order: PassOrder, buckets: Sequence[ListedBucket], lock: KeptLease) -> PassReport:
        """Publishes the tasks."""
        if order.dry_run:
            raise InvalidInput("the listing engine acts while it lists: a dry run needs the engine spark")
        report = PassReport(order.id, NAME, order.trigger, order.now_ns, len(buckets), self._trail.ends(), order.bucket)
        tasks = [BucketTask(bucket.owner, bucket.name, bucket.uid, report.id, order.now_ns) for bucket in buckets]
        for start in range(0, len(tasks), _APPEND):
            stretch = tasks[start : start + _APPEND]
            self._topics.append(BUCKET_TASKS_TOPIC, [Record(task.bucket_uid, task.to_bytes()) for task in stretch])
        if tasks or order.is_requested:
            # Only now: a pass that is noted down and has no backlog has come to its end.
            self._reports.begin(report)
        return report

    def between(self, now: float) -> None:
        """Writes into the report of a pass that has come to its end what it did."""
        report = self._reports.running()
        if report is not None and trim_finished(self._topics):
            self._close(report, now)

    def _close(self, report: PassReport, now: float) -> None:
        outcomes: dict[tuple[str, str], Counter[str]] = {}
        for record in self._trail.since(report.audit_ends):
            if record.task.pass_id == report.id:
                counts = outcomes.setdefault((record.task.bucket, record.task.bucket_uid), Counter())
                counts[record.outcome.value] += 1
        details = [BucketReport(*bucket, walked=True, outcomes=dict(counts)) for bucket, counts in outcomes.items()]
        status = PassStatus.BLOCKED if any(detail.is_blocked for detail in details) else PassStatus.OK
        problem = ""
        if read_stops(self._tables).everything:
            status, problem = PassStatus.INTERRUPTED, "lifecycle was stopped"
        ended = report.ended(int(now * 1e9), status, details, problem)
        self._reports.end(report, ended)
        if ended.outcomes:
            told = " ".join(f"{outcome}={count}" for outcome, count in sorted(ended.outcomes.items()))
            logger.info("lifecycle pass %s: buckets=%d %s", report.id, report.buckets, told)
