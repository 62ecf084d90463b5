"""The buckets with rules to carry out: the list that the queue populator keeps and the conductor reads."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.errors import NotFound
from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.records import Bucket, Pool
from tidegate.ports import Tables
from tidegate.table_pages import every

PREFIX = "lifecycle/data/buckets/"
_NULL = "null"


@dataclass(frozen=True, slots=True)
class ListedBucket:
    """`uid` tells it from an earlier or later bucket of the same name."""

    owner: str
    uid: str
    name: str

    @property
    def table_key(self) -> str:
        return f"{PREFIX}{self.owner}:{self.uid}:{self.name}"

    @classmethod
    def of_key(cls, key: str) -> ListedBucket:
        owner, uid, name = key.removeprefix(PREFIX).rsplit(":", 2)
        return cls(owner, uid, name)


class BucketList:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def all(self) -> list[ListedBucket]:
        return [ListedBucket.of_key(key) for key, _ in every(self._tables, PREFIX)]

    def refresh(self, bucket: ListedBucket) -> None:
        """Lists the bucket if it has a rule that is enabled, and otherwise does not."""
        if active_rules(self._tables, bucket.uid) is None:
            self._tables.delete(bucket.table_key)
        else:
            self._tables.put_if_absent(bucket.table_key, _NULL)

    def remove(self, bucket: ListedBucket) -> None:
        self._tables.delete(bucket.table_key)


def active_rules(tables: Tables, bucket_uid: str) -> RuleSet | None:
    """The bucket's rules; None where it has none, or none that is enabled."""
    text = tables.get(LIFECYCLE + bucket_uid)
    rules = RuleSet.from_json(text) if text is not None else None
    return rules if rules is not None and rules.active() else None


def existing(tables: Tables, name: str, uid: str) -> Bucket | None:
    """The bucket of that name, provided it is still the same one."""
    text = tables.get(Bucket.PREFIX + name)
    bucket = Bucket.from_json(text) if text is not None else None
    return bucket if bucket is not None and bucket.uid == uid else None


def reconcile(tables: Tables) -> None:
    """Takes into the list what the tables show, for buckets whose events have left the log, or are not read yet."""
    listed = BucketList(tables)
    for _, text in every(tables, Bucket.PREFIX):
        bucket = Bucket.from_json(text)
        if tables.get(LIFECYCLE + bucket.uid) is not None:
            owner = tables.get(Pool.PREFIX + bucket.pool)
            name = Pool.from_json(owner).owner if owner is not None else ""
            listed.refresh(ListedBucket(name, bucket.uid, bucket.name))


def chosen(tables: Tables, name: str = "") -> list[ListedBucket]:
    """The buckets on the list that still exist, or the one of that name; the entries of others are removed."""
    listed = BucketList(tables)
    found: dict[str, ListedBucket] = {}
    for bucket in listed.all():
        if existing(tables, bucket.name, bucket.uid) is None:
            listed.remove(bucket)
        elif not name or bucket.name == name:
            found.setdefault(bucket.uid, bucket)  # one whose owner was renamed is listed twice
    if name and not found:
        raise NotFound(f"bucket {name} has no lifecycle rules that are enabled")
    return list(found.values())
