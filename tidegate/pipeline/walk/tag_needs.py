"""Which listed versions need their tags looked up, and looking them up: each costs a request of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.errors import NotFound
from tidegate.core.lifecycle.due import SECOND_NS, day_length_ns
from tidegate.core.lifecycle.rules import RuleAction
from tidegate.ports import Store


@dataclass(frozen=True, slots=True)
class TagNeed:
    """What an action that asks for tags leaves open without them. What was created after `before_ns` is not due."""

    prefix: str
    size_greater_than: int | None
    size_less_than: int | None
    before_ns: int

    def of(self, versions: pa.RecordBatch) -> pa.Array:
        """For each version, whether the action asks for its tags."""
        size = versions.column("size")
        conditions = [
            pc.invert(versions.column("is_marker")),
            pc.starts_with(versions.column("key"), self.prefix),
            pc.less_equal(versions.column("created_ns"), self.before_ns),
        ]
        if self.size_greater_than is not None:
            conditions.append(pc.greater(size, self.size_greater_than))
        if self.size_less_than is not None:
            conditions.append(pc.less(size, self.size_less_than))
        return reduce(pc.and_, conditions)


def tag_needs(pairs: Iterable[RuleAction], *, day_seconds: float, now_ns: int) -> tuple[TagNeed, ...]:
    """Of the actions of a bucket. A count of days begins with the version's creation at the earliest."""
    needs = set()
    for pair in pairs:
        action, where = pair.action, pair.rule.filter
        if not where.tags or (action.date is not None and action.date * SECOND_NS > now_ns):
            continue
        before_ns = now_ns - (action.days or 0) * day_length_ns(day_seconds)
        needs.add(TagNeed(where.prefix or "", where.size_greater_than, where.size_less_than, before_ns))
    return tuple(needs)


def with_tags(versions: pa.RecordBatch, needs: Sequence[TagNeed], store: Store, bucket: str) -> pa.RecordBatch:
    """With the tags of the versions that need them."""
    if not needs or not versions.num_rows:
        return versions
    needed = reduce(pc.or_, [need.of(versions) for need in needs])
    places = pc.indices_nonzero(needed).to_pylist()
    if not places:
        return versions
    chosen = versions.take(pa.array(places, pa.int64()))
    keys, ids = chosen.column("key").to_pylist(), chosen.column("version_id").to_pylist()
    found = [_fetched(store, bucket, key, version_id) for key, version_id in zip(keys, ids, strict=True)]
    tags: list[list[tuple[str, str]]] = [[] for _ in range(versions.num_rows)]
    for place, pairs in zip(places, found, strict=True):
        tags[place] = pairs
    at = versions.schema.get_field_index("tags")
    return versions.set_column(at, versions.schema.field(at), pa.array(tags, versions.schema.field(at).type))


def _fetched(store: Store, bucket: str, key: str, version_id: str) -> list[tuple[str, str]]:
    try:
        return list(store.tags(bucket, key, version_id))
    except NotFound:
        return []  # it went while it was listed
