"""What lifecycle leaves alone until it has been replicated.

A version has a record from when the metadata log was read. One that has none yet is held if the bucket's rules were
there when it was written.
"""

from __future__ import annotations

from functools import lru_cache

from tidegate.core.errors import NotFound
from tidegate.core.events import Pairs
from tidegate.core.replication.lifecycle_hold import NOT_NOTICED, why_held
from tidegate.core.replication.records import RECORDS, ReplicationRecord, entry_of
from tidegate.core.replication.replicas import is_shown_as_replica
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.ports import Store, Tables

_NS = 1_000_000_000
_NO_RULES = ReplicationRules(())


class ReplicationHold:
    """Of one bucket. Where it has neither rules nor records, two reads of the tables tell. `hold_failed`: what has
    failed is held, too."""

    def __init__(self, tables: Tables, store: Store, bucket: str, uid: str, *, hold_failed: bool) -> None:
        self._tables = tables
        self._store = store
        self._bucket = bucket
        self._uid = uid
        self._hold_failed = hold_failed

    def rules(self) -> ReplicationRules | None:
        """Those that there are now; None if nothing can be held. Versions go on their way when the rules are deleted:
        records count where there are no rules any more."""
        text = self._tables.get(REPLICATION + self._uid)
        if text is not None:
            return _rules(text)
        return _NO_RULES if self._tables.scan(f"{RECORDS}{self._uid}/", limit=1) else None

    def why_held(self, rules: ReplicationRules, key: str, version_id: str, *, is_marker: bool, created_ns: int) -> str:
        """Why the version must be left alone; empty if nothing holds it."""
        text = self._tables.get(entry_of(self._uid, key, version_id))
        if text is not None:
            return why_held(ReplicationRecord.from_json(text), hold_failed=self._hold_failed)
        written_at = _written_at(created_ns)
        if not _may_match(rules, key, written_at):
            return ""
        try:
            tags: Pairs = ()
            if rules.needs_tags and not is_marker:
                tags = self._store.tags(self._bucket, key, version_id)
            if not rules.targets(key, tags, is_marker=is_marker, written_at=written_at):
                return ""
            head = None if is_marker else self._store.head(self._bucket, key, version_id)
        except NotFound:
            return ""  # it is gone, and whoever is to delete it will see that
        return "" if head is not None and is_shown_as_replica(head.headers) else NOT_NOTICED


def _written_at(created_ns: int) -> float:
    """A listing's time is the last moment that it can mean. What was written in the second in which the rules were put
    counts as older there, as it does for backfills."""
    is_second = (created_ns + 1) % _NS == 0
    return created_ns // _NS if is_second else created_ns / _NS


def _may_match(rules: ReplicationRules, key: str, written_at: float) -> bool:
    return any(rule.enabled and key.startswith(rule.filter.prefix or "") for rule in rules.rules_at(written_at))


@lru_cache(maxsize=512)
def _rules(text: str) -> ReplicationRules:
    return ReplicationRules.from_json(text)
