"""What operators see of lifecycle and ask of it, the same for the HTTP API and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from pydantic import BaseModel, Field

from tidegate.core.errors import NotFound
from tidegate.core.lifecycle.explain import Explanation, Verdict, explain
from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.lifecycle.rules_json import parse_either
from tidegate.core.lifecycle.subjects import Version
from tidegate.core.lifecycle.tasks import AuditRecord
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.acting.replication_hold import ReplicationHold
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_context import context_of
from tidegate.lifecycle.buckets.bucket_list import BucketList, active_rules, existing
from tidegate.lifecycle.buckets.time_scale import day_seconds, interval_seconds
from tidegate.lifecycle.passes.listing_evaluator import ListingEvaluator, upload_of, version_of
from tidegate.lifecycle.queries.moments import moment_of
from tidegate.lifecycle.queries.simulation import Progress, Simulation, SimulationView, passes_at
from tidegate.lifecycle.topics import create_topics
from tidegate.ports import Tables, Topics
from tidegate.settings import LifecycleSettings
from tidegate.storage_classes import Configured, classes_in
from tidegate.views import filled
from tidegate.walking import uploads_of, versions_of


class LifecycledBucketView(BaseModel):
    """A bucket with lifecycle rules to carry out."""

    bucket: str
    uid: str
    pool: str
    owner: str
    rules: int = Field(description="Rules that are enabled.")


class AuditView(BaseModel):
    """What became of one task."""

    at: datetime
    bucket: str
    key: str
    version_id: str
    upload_id: str
    action: str = Field(examples=["deleteObject"])
    kind: str = Field(examples=["ExpirationDays"])
    rule_id: str
    outcome: str = Field(examples=["DONE"])
    reason: str
    due_at: datetime
    last_modified: str
    etag: str
    size: int | None
    pass_id: str
    worker: str


class VerdictView(BaseModel):
    """What one action of one rule says of a version or upload."""

    rule_id: str
    kind: str
    action: str
    storage_class: str
    matches: bool
    obstacles: list[str] = Field(description="Why it does not apply.")
    due_at: datetime | None
    is_due: bool
    hold: str = Field(description="What a due action waits for.")
    is_next: bool = Field(description="Whether this is what the next pass does.")


class ExplanationView(BaseModel):
    """One version of a key, or one open upload."""

    version_id: str
    upload_id: str
    place: str = Field(examples=["current"])
    created_at: datetime
    verdicts: list[VerdictView]


class KeyExplanationView(BaseModel):
    """What lifecycle makes of a key: each version and upload against each rule."""

    bucket: str
    key: str
    versioning: str
    at: datetime
    rules: int
    items: list[ExplanationView]
    last_decision: AuditView | None


@dataclass(frozen=True, slots=True)
class Inspector:
    """`open_stores` is called only when a store must be looked into. `configured` are the locations of the settings.
    `hold_failed`: what could not be replicated is left alone, as is what is still to be replicated."""

    tables: Tables
    topics: Topics
    settings: LifecycleSettings
    open_stores: Callable[[], Stores]
    configured: Configured = field(default_factory=dict)
    hold_failed: bool = False

    def buckets(self) -> list[LifecycledBucketView]:
        views = []
        for listed in BucketList(self.tables).all():
            bucket = existing(self.tables, listed.name, listed.uid)
            rules = active_rules(self.tables, listed.uid)
            if bucket is not None and rules is not None:
                enabled = sum(rule.enabled for rule in rules.rules)
                views.append(
                    LifecycledBucketView(
                        bucket=listed.name, uid=listed.uid, pool=bucket.pool, owner=listed.owner, rules=enabled
                    )
                )
        return sorted(views, key=lambda view: view.bucket)

    def audit(self, *, bucket: str = "", key: str | None = None, count: int) -> list[AuditView]:
        """The newest records, the oldest of them first."""
        create_topics(self.topics)

        def wanted(record: AuditRecord) -> bool:
            return (not bucket or record.task.bucket == bucket) and (key is None or record.task.key == key)

        return [_view_audit(record) for record in AuditTrail(self.topics).newest(count, wanted)]

    def explain(self, bucket_name: str, key: str, version_id: str = "") -> KeyExplanationView:
        bucket = self._bucket(bucket_name)
        stored = self.tables.get(LIFECYCLE + bucket.uid)
        rules = RuleSet.from_json(stored) if stored is not None else RuleSet()
        evaluator = self._evaluator(bucket, rules, self.open_stores())
        bucket_context, now_ns = evaluator.bucket_context, evaluator.now_ns
        versions = self._with_holds(bucket, evaluator, key, self._versions(evaluator, key))
        uploads = [upload_of(entry) for entry in uploads_of(evaluator.store, bucket_name, key)]
        explained = explain(key, versions, uploads, rules, bucket_context, now_ns=now_ns)
        if version_id:
            explained = [item for item in explained if version_id in (item.version_id, item.version_id or "null")]
        if not explained:
            which = f"version {version_id} of {key}" if version_id else key
            raise NotFound(f"there is no {which} in bucket {bucket_name}")
        last = self.audit(bucket=bucket_name, key=key, count=1)
        return KeyExplanationView(
            bucket=bucket_name,
            key=key,
            versioning=bucket_context.versioning.value,
            at=moment_of(now_ns),
            rules=len(rules.rules),
            items=[_view_explanation(item) for item in explained],
            last_decision=last[-1] if last else None,
        )

    def simulate(
        self,
        bucket_name: str,
        document: bytes,
        *,
        days: int,
        minimum: str | None = None,
        progress: Progress = lambda keys: True,
    ) -> SimulationView:
        """What the rules in the document, XML or JSON, would do; an `S3Error` where PUT would refuse them."""
        settings, bucket = self.settings, self._bucket(bucket_name)
        rules = parse_either(
            document,
            storage_classes=classes_in(self.tables, settings, self.configured),
            minimum=minimum,
            strict=settings.strict_filters,
        )
        evaluator = self._evaluator(bucket, rules, self.open_stores())
        interval = interval_seconds(self.tables, settings)
        simulation = Simulation(
            evaluator,
            days=days,
            pass_at=passes_at(evaluator.now_ns, interval_seconds=interval, cron=settings.cron),
        )
        return simulation.run(progress)

    def _bucket(self, name: str) -> Bucket:
        text = self.tables.get(Bucket.PREFIX + name)
        if text is None:
            raise NotFound(f"there is no bucket {name}")
        return Bucket.from_json(text)

    def _evaluator(self, bucket: Bucket, rules: RuleSet, stores: Stores) -> ListingEvaluator:
        store = stores.of_pool(bucket.pool)
        day = day_seconds(self.tables, self.settings, bucket.pool)
        keeps_null_markers = stores.keeps_null_markers(bucket.pool)
        bucket_context = context_of(
            self.settings,
            store.versioning(bucket.name),
            day,
            classes=classes_in(self.tables, self.settings, self.configured),
            keeps_null_markers=keeps_null_markers,
        )
        return ListingEvaluator(
            store, bucket.name, rules, bucket_context, store.locks_objects(bucket.name), time.time_ns()
        )

    def _versions(self, evaluator: ListingEvaluator, key: str) -> list[Version]:
        listed = versions_of(evaluator.store, evaluator.bucket, key)
        versions = [version_of(entry, evaluator.bucket_context.versioning) for entry in listed]
        return [version if version.is_marker else evaluator.looked_into(key, version) for version in versions]

    def _with_holds(
        self, bucket: Bucket, evaluator: ListingEvaluator, key: str, versions: list[Version]
    ) -> list[Version]:
        """The versions with whether they are still to be replicated, which workers look at when they act."""
        hold = ReplicationHold(self.tables, evaluator.store, bucket.name, bucket.uid, hold_failed=self.hold_failed)
        rules = hold.rules()
        if rules is None:
            return versions

        def is_held(version: Version) -> bool:
            return bool(
                hold.why_held(
                    rules, key, version.version_id, is_marker=version.is_marker, created_ns=version.created_ns
                )
            )

        return [replace(version, replication_pending=is_held(version)) for version in versions]


def _view_audit(record: AuditRecord) -> AuditView:
    task = record.task
    return filled(
        AuditView, record, task, at=moment_of(record.at_ns), action=task.effect.value, due_at=moment_of(task.due_ns)
    )


def _view_explanation(item: Explanation) -> ExplanationView:
    following = {planned.action_id for planned in item.planned if planned.hold is None}
    verdicts = [_view_verdict(verdict, verdict.action_id in following) for verdict in item.verdicts]
    created_at = moment_of(item.created_ns)
    return filled(ExplanationView, item, place=item.role.value, created_at=created_at, verdicts=verdicts)


def _view_verdict(verdict: Verdict, is_next: bool) -> VerdictView:
    return filled(
        VerdictView,
        verdict,
        action=verdict.effect.value,
        matches=not verdict.obstacles,
        due_at=moment_of(verdict.due_ns) if verdict.due_ns is not None else None,
        hold=verdict.hold or "",
        is_next=is_next,
    )
