"""The replication rules that stand in the tables, parsed once for as long as their text is the same."""

from __future__ import annotations

from tidegate.core.replication.records import RECORDS
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.ports import Tables
from tidegate.replication.destinations import destinations_of
from tidegate.table_pages import every


class StoredRules:
    """For one thread. What is asked twice between two calls of `begin` is read once."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._parsed: dict[str, tuple[str, ReplicationRules]] = {}
        self._read: dict[str, ReplicationRules | None] = {}
        self._with_records: dict[str, bool] = {}

    def begin(self) -> None:
        self._read.clear()
        self._with_records.clear()

    def of_bucket(self, bucket_uid: str) -> ReplicationRules | None:
        if bucket_uid not in self._read:
            text = self._tables.get(REPLICATION + bucket_uid) if bucket_uid else None
            self._read[bucket_uid] = self._rules(bucket_uid, text) if text is not None else None
        return self._read[bucket_uid]

    def has_records(self, bucket_uid: str) -> bool:
        """Whether the bucket has versions that were to be replicated, be it under rules that it has no more."""
        if bucket_uid not in self._with_records:
            self._with_records[bucket_uid] = bool(self._tables.scan(f"{RECORDS}{bucket_uid}/", limit=1))
        return self._with_records[bucket_uid]

    def sites(self) -> set[str]:
        """Those that enabled rules of any bucket name."""
        return {
            site
            for entry, text in every(self._tables, REPLICATION)
            for site in self._rules(entry.removeprefix(REPLICATION), text).sites
        }

    def destinations(self) -> dict[str, set[str]]:
        """The buckets that enabled rules of any bucket name, by site."""
        return destinations_of(
            rule
            for entry, text in every(self._tables, REPLICATION)
            for rule in self._rules(entry.removeprefix(REPLICATION), text).rules
            if rule.enabled
        )

    def _rules(self, bucket_uid: str, text: str) -> ReplicationRules:
        known = self._parsed.get(bucket_uid)
        if known is None or known[0] != text:
            known = text, ReplicationRules.from_json(text)
            self._parsed[bucket_uid] = known
        return known[1]
