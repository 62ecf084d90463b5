"""Brings back what was deleted for good, from the trash: the versions of a bucket by their keys, their time or a pass.

The gateway brings back each version, and keeps whatever has taken its place meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, islice

from pydantic import BaseModel, Field

from tidegate import metrics
from tidegate.core.errors import TidegateError
from tidegate.core.events import NULL_VERSION
from tidegate.core.records import Bucket
from tidegate.core.trash import TrashRecord, entries_of_bucket, in_order_of_restoring
from tidegate.lifecycle.acting.stores import Stores
from tidegate.ports import Store, Tables
from tidegate.table_pages import every
from tidegate.views import filled

_THREADS = 16
_KEYS_AT_ONCE = 500


@dataclass(slots=True)
class UndeleteCounts:
    """What was found so far, and what became of it. With a dry run nothing is changed."""

    found: int = 0
    restored: int = 0
    kept: int = 0
    gone: int = 0
    failed: int = 0
    first_failure: str = ""

    def note(self, outcome: str) -> None:
        setattr(self, outcome, getattr(self, outcome) + 1)


class UndeleteView(BaseModel):
    """What was found in the trash, and what became of it. A dry run says what would become of it."""

    bucket: str
    prefix: str
    dry_run: bool
    found: int = Field(description="Versions in the trash that are meant.")
    restored: int = Field(description="Versions that are there again.")
    kept: int = Field(
        description="Versions left in the trash: they are there, or something was written in their place."
    )
    gone: int = Field(description="Versions whose grace ended meanwhile.")
    failed: int = Field(description="Versions that could not be brought back; asking again is safe.")
    first_failure: str


Progress = Callable[[UndeleteCounts], None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which versions in the trash are meant: those of keys that begin with `prefix`, deleted since a Unix time, and by
    one pass (empty: whoever has deleted them)."""

    prefix: str = ""
    since: float = 0.0
    pass_id: str = ""

    def has(self, record: TrashRecord) -> bool:
        return record.deleted_ns >= self.since * 1e9 and self.pass_id in ("", record.pass_id)


def undelete(
    tables: Tables,
    bucket: Bucket,
    stores: Callable[[], Stores],
    selection: Selection,
    *,
    dry_run: bool,
    progress: Progress = lambda counts: None,
) -> UndeleteView:
    """What operators ask for, the same for the HTTP API and the command line."""
    opened = stores()
    try:
        work = Undelete(tables, opened.of_pool(bucket.pool), bucket)
        counts = work.run(selection, dry_run=dry_run, progress=progress)
    finally:
        opened.close()
    return filled(UndeleteView, counts, bucket=bucket.name, prefix=selection.prefix, dry_run=dry_run)


class Undelete:
    """Of one bucket; `store` is that of its pool, seen through the gateway."""

    def __init__(self, tables: Tables, store: Store, bucket: Bucket) -> None:
        self._tables = tables
        self._store = store
        self._bucket = bucket
        self._lock = threading.Lock()

    def run(self, selection: Selection, *, dry_run: bool, progress: Progress) -> UndeleteCounts:
        counts = UndeleteCounts()
        keys = self._keys(selection)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="undelete") as executor:
            while some := list(islice(keys, _KEYS_AT_ONCE)):
                counts.found += sum(map(len, some))
                for _ in executor.map(lambda records: self._restore(records, dry_run, counts), some):
                    progress(counts)
        return counts

    def _keys(self, selection: Selection) -> Iterator[list[TrashRecord]]:
        """The records of each key, in the order in which they come back."""
        entries = every(self._tables, entries_of_bucket(self._bucket.uid, selection.prefix))
        records = (TrashRecord.from_json(text) for _, text in entries)
        for _, of_key in groupby(filter(selection.has, records), lambda record: record.placement.key):
            yield in_order_of_restoring(of_key)

    def _restore(self, records: list[TrashRecord], dry_run: bool, counts: UndeleteCounts) -> None:
        for record in records:
            placement, failure = record.placement, ""
            version_id = "" if placement.version_id == NULL_VERSION else placement.version_id
            try:
                outcome = self._store.undelete(self._bucket.name, placement.key, version_id, record.id, dry_run=dry_run)
            except TidegateError as error:
                outcome, failure = "failed", f"{placement.key}: {error}"
            with self._lock:
                counts.note(outcome)
                counts.first_failure = counts.first_failure or failure
            if not dry_run:
                metrics.TRASH_UNDELETED.labels(outcome).inc()
