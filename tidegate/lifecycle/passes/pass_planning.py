"""What a pass on Spark plans: from what is known of the buckets to the plan's files."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate.core.errors import TidegateError
from tidegate.core.lifecycle.rules import RuleAction
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import ListedBucket
from tidegate.lifecycle.passes.bucket_listing import common_prefix
from tidegate.lifecycle.passes.bucket_work import BucketWork, PassClock, depends_on_changes, work_in
from tidegate.lifecycle.passes.pass_records import BucketReport
from tidegate.lifecycle.passes.snapshot import Snapshot
from tidegate.pipeline.log.log_table import LogTable
from tidegate.pipeline.plan.actions import RuledBucket, ScopedAction
from tidegate.pipeline.plan.planning import BucketPlan, Replayed, Walked, last_changes, make_plan
from tidegate.pipeline.session.spark_session import Session
from tidegate.pipeline.walk.inventory import Choice, choose
from tidegate.pipeline.walk.listing_source import WalkedBucket
from tidegate.pipeline.walk.tag_needs import tag_needs
from tidegate.settings import LifecycleSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedPass:
    """`plans` are by bucket uid; `problems` say of buckets why they cannot be dealt with."""

    works: list[BucketWork]
    plans: dict[str, BucketPlan] = field(default_factory=dict)
    problems: dict[ListedBucket, str] = field(default_factory=dict)

    @property
    def actions(self) -> int:
        return sum(sum(plan.planned.values()) for plan in self.plans.values())

    def is_stuck(self, uid: str) -> bool:
        plan = self.plans.get(uid)
        return any(bucket.uid == uid for bucket in self.problems) or (plan is not None and bool(plan.problem))

    def report(self, work: BucketWork, known: BucketReport) -> BucketReport:
        """With what is planned in the bucket."""
        plan = self.plans.get(work.uid, BucketPlan())
        return replace(
            known,
            planned=dict(plan.planned),
            held=dict(plan.held),
            bytes=plan.bytes,
            unresolved_keys=plan.unresolved_keys,
            problem=plan.problem,
        )

    def with_problems(self, details: Sequence[BucketReport]) -> list[BucketReport]:
        """The reports of all buckets, those included that are nothing but a problem."""
        told = {bucket.uid: problem for bucket, problem in self.problems.items()}
        known = {detail.uid for detail in details}
        lost = [BucketReport(bucket.name, bucket.uid) for bucket in self.problems if bucket.uid not in known]
        return [replace(detail, problem=told.get(detail.uid, detail.problem)) for detail in (*details, *lost)]


class PassPlanner:
    """`url` is the S3 endpoint at which buckets are listed."""

    def __init__(
        self, session: Session, table: LogTable, stores: Stores, settings: LifecycleSettings, url: str
    ) -> None:
        self._session = session
        self._table = table
        self._stores = stores
        self._settings = settings
        self._url = url

    def plan(self, snapshot: Snapshot, times: PassClock, folder: Path) -> PlannedPass:
        """A bucket that cannot be looked into is a problem of that bucket only."""
        planned = PlannedPass(self._works(snapshot, times), problems=dict(snapshot.problems))
        walked: list[Walked] = []
        replayed: list[Replayed] = []
        for work in planned.works:
            if not (work.is_walked or work.is_replayed):
                continue
            try:
                place = self._place(work)
            except TidegateError as error:  # such as a pool that was deleted a moment ago
                planned.problems[ListedBucket(work.snapshot.owner, work.uid, work.snapshot.bucket.name)] = str(error)
                continue
            if work.is_walked:
                walked.append(Walked(_ruled(work, work.walked_for()), place))
            if work.is_replayed:
                replayed.append(Replayed(_ruled(work, work.replayed_for()), work.after_ns(), place))
        if walked or replayed:
            until_ns = min(times.now_ns, times.landed_ns)
            plans = make_plan(
                self._session,
                self._table,
                folder,
                now_ns=times.now_ns,
                until_ns=until_ns,
                walked=walked,
                replayed=replayed,
            )
            planned.plans.update(plans)
        return planned

    def _works(self, snapshot: Snapshot, times: PassClock) -> list[BucketWork]:
        """Buckets are not walked again where nothing can have become due since their last walk."""
        works = [work_in(bucket, times) for bucket in snapshot.buckets]
        asked = [work for work in works if depends_on_changes(work, times)]
        if not asked:
            return works
        walked_ns = min(cursor.last_walked_ns for work in asked for cursor in work.snapshot.cursors.values())
        uids = {work.uid for work in asked}
        # Clocks of machines differ a little: what is said to have happened just before the walk may have come after.
        changes = last_changes(self._session, self._table, uids, since_ns=walked_ns - times.late_ns)
        changed = {uid: changes[uid] + times.late_ns if uid in changes else 0 for uid in uids}
        return [work_in(work.snapshot, times, changed[work.uid]) if work.uid in uids else work for work in works]

    def _place(self, work: BucketWork) -> WalkedBucket:
        """Only what can matter is listed: keys with the prefix that the actions have in common."""
        bucket, terms = work.snapshot.bucket, work.snapshot.terms
        access_key, secret = self._stores.credentials(bucket.pool)
        inventory = self._inventory(work) if work.is_walked else Choice()
        pairs = work.walked_for() | work.replayed_for()
        return WalkedBucket(
            uid=bucket.uid,
            name=bucket.name,
            owner=work.snapshot.owner,
            url=self._url,
            access_key=access_key,
            secret=secret,
            prefix=common_prefix(pairs),
            tag_needs=tag_needs(work.snapshot.rules.active(), day_seconds=terms.day_seconds, now_ns=work.clock.now_ns),
            inventory=inventory.address,
            inventory_until_ns=inventory.until_ns,
        )

    def _inventory(self, work: BucketWork) -> Choice:
        """The report that the settings name for the bucket; without one that can be used, the bucket is listed."""
        bucket = work.snapshot.bucket
        choice = choose(
            self._settings.inventories,
            bucket.name,
            lambda: self._stores.of_pool(bucket.pool),
            max_age_hours=self._settings.inventory_max_age_hours,
            now_ns=work.clock.now_ns,
            log_horizon_ns=self._table.manifest().horizon_ns,
        )
        if choice.problem:
            logger.warning("bucket %s is listed: %s", bucket.name, choice.problem)
        return choice


def _ruled(work: BucketWork, pairs: Mapping[RuleAction, int]) -> RuledBucket:
    actions = tuple(ScopedAction(pair, shards) for pair, shards in pairs.items())
    return RuledBucket(work.uid, work.snapshot.rules, work.snapshot.terms, actions, complete=work.is_log_complete)
