"""A service with days of ten seconds and two locations, and buckets of every state of versioning whose objects move."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lifecycle_world import DAY, World
from move_ledger import Ledger
from running_service import RunningService
from second_store import SecondStore

STATES = ("", "Enabled", "Suspended")
PAST = datetime(2020, 1, 1, tzinfo=UTC)
FUTURE = datetime(2999, 1, 1, tzinfo=UTC)
SETTINGS: dict[str, Any] = {
    "lifecycle.day_seconds": DAY,
    "lifecycle.interval_seconds": 600,
    "lifecycle.minimum_transition_bytes": 0,
    "topics.lease_seconds": 3,
    "deletion.record_seconds": 2,
    "deletion.reconsume_seconds": 2,
    "movement.retry_seconds": [1] * 20,
}
RULES = (
    {"Filter": {"Prefix": "days/"}, "Transitions": [{"Days": 1, "StorageClass": "COLD"}]},
    {"Filter": {"Prefix": "date/"}, "Transitions": [{"Date": PAST, "StorageClass": "COLD"}]},
    {"Filter": {"Prefix": "later/"}, "Transitions": [{"Date": FUTURE, "StorageClass": "COLD"}]},
    {
        "Filter": {"Prefix": "colder/"},
        "Transitions": [{"Days": 1, "StorageClass": "COLD"}, {"Days": 2, "StorageClass": "FROZEN"}],
    },
)
NONCURRENT = {
    "Filter": {"Prefix": "replaced/"},
    "NoncurrentVersionTransitions": [{"NoncurrentDays": 1, "StorageClass": "COLD"}],
}
EXPIRE = {"Expiration": {"Days": 1}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}}
# The storage class in which a current version ends, by what its key begins with.
CLASSES = {"days": "COLD", "date": "COLD", "later": "STANDARD", "colder": "FROZEN", "replaced": "STANDARD"}


def bucket_of(state: str) -> str:
    return f"moving-{state.lower() or 'plain'}"


@dataclass
class TransitionWorld:
    """`frozen` is a store of the world's own, which may be stopped. `written` are the data of all versions, by bucket,
    key and id."""

    world: World
    cold: Ledger
    frozen: Ledger
    written: dict[tuple[str, str, str], bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, service: RunningService, cold: SecondStore, frozen: SecondStore) -> TransitionWorld:
        key = service.create_pool(f"moving-{service.settings['lifecycle.engine']}")
        return cls(
            World(service, key, asks=True), Ledger(service, key, cold, "cold"), Ledger(service, key, frozen, "frozen")
        )

    def arrange(self) -> None:
        for state in STATES:
            bucket = self.world.bucket(bucket_of(state), versioning="Enabled" if state == "Suspended" else state)
            if state:
                self._put(bucket, "replaced/k", "days/covered")
            if state == "Suspended":
                self.world.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": state})
            self._put(bucket, "replaced/k", "days/1", "days/2", "days/covered", "date/1", "later/1", "colder/1")
            self.world.rules(bucket, *RULES, *([NONCURRENT] if state else []))

    def _put(self, bucket: str, *keys: str) -> None:
        """An overwritten null version is forgotten."""
        for key in keys:
            data = f"{key} {len(self.written)}".encode()
            (version_id,) = self.world.put(bucket, key, body=data)
            self.written[bucket, key, version_id or "null"] = data

    def classes(self, bucket: str) -> dict[tuple[str, str], str]:
        """The storage class of every version."""
        pages = self.world.s3.get_paginator("list_object_versions").paginate(Bucket=bucket)
        return {
            (entry["Key"], entry["VersionId"]): entry.get("StorageClass", "STANDARD")
            for page in pages
            for entry in page.get("Versions", [])
        }

    def wanted(self, bucket: str) -> dict[tuple[str, str], str]:
        """The storage class in which every version ends."""
        current = {(where, key): version_id for where, key, version_id in self.written}  # the last one that was put
        found: dict[tuple[str, str], str] = {}
        for where, key, version_id in self.written:
            if where == bucket:
                is_current = current[where, key] == version_id
                is_replaced = not is_current and key.startswith("replaced/")
                of_key = CLASSES[key.partition("/")[0]] if is_current else "STANDARD"
                found[key, version_id] = "COLD" if is_replaced else of_key
        return found

    def buckets(self) -> list[str]:
        return [bucket_of(state) for state in STATES]

    def wait_until_moved(self) -> None:
        def is_moved() -> bool:
            return all(self.classes(bucket) == self.wanted(bucket) for bucket in self.buckets())

        self.world.wait_until(is_moved, "transitions")

    def assert_exact(self) -> None:
        for ledger in (self.cold, self.frozen):
            ledger.assert_exact(self.buckets())

    def end(self) -> None:
        self.cold.close()
        self.frozen.close()
        self.world.service.end()
