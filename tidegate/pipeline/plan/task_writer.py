"""Tasks into topics, batch by batch of Arrow columns: each to the topic of its effect, all partitions in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.copy_tasks import CopyTask
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.routes import ROUTES, Route
from tidegate.core.lifecycle.tasks import ObjectTask
from tidegate.pipeline.plan.bucket_plan import Published
from tidegate.pipeline.plan.handed_over import HandedOver
from tidegate.ports import Record, Topics

_APPEND_RECORDS = 1000
# Tasks as messages: `key` is that of the record, and tells neighbours in a bucket.
TASKS = pa.schema([("bucket_uid", pa.string()), ("effect", pa.string()), ("key", pa.string()), ("value", pa.string())])
COUNTS = pa.schema([("bucket_uid", pa.string()), ("is_handed_over", pa.bool_()), ("tasks", pa.int64())])


class TaskWriter:
    """`open_handed_over` is called when something is handed over for the first time. `first` is the partition to begin
    with: of several writers each begins elsewhere."""

    def __init__(self, topics: Topics, open_handed_over: Callable[[], HandedOver], *, first: int = 0) -> None:
        self._topics = topics
        self._handed_over = cache(open_handed_over)
        self._first = first
        self._partitions: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._last_key: dict[str, str] = {}

    def append(self, tasks: pa.RecordBatch) -> pa.RecordBatch:
        """Appends tasks (`TASKS`), which are in the order of their keys, and counts them (`COUNTS`)."""
        counts = []
        for route in dict.fromkeys(ROUTES[Effect(name)] for name in pc.unique(tasks.column("effect")).to_pylist()):
            effects = pa.array([effect.value for effect, found in ROUTES.items() if found == route])
            routed = tasks.filter(pc.is_in(tasks.column("effect"), effects))
            counts.append(_counted(routed, route))
            self._write(route.topic, self._begun(routed) if route.is_handed_over else routed)
        return pa.concat_batches(counts) if counts else pa.RecordBatch.from_pylist([], schema=COUNTS)

    def _begun(self, tasks: pa.RecordBatch) -> pa.RecordBatch:
        """As tasks of the data mover, without what is under way already."""
        now_ns = time.time_ns()
        found = [ObjectTask.from_bytes(value.encode()) for value in tasks.column("value").to_pylist()]
        copies = pa.array([CopyTask.of(task).to_bytes().decode() for task in found], pa.string())
        messages = tasks.set_column(tasks.schema.get_field_index("value"), "value", copies)
        begun = [self._handed_over().begin(task, now_ns=now_ns) for task in found]
        return messages.filter(pa.array(begun, pa.bool_()))

    def _write(self, topic: str, tasks: pa.RecordBatch) -> None:
        for part in _parts(tasks):
            first, last = part.column("key")[0].as_py(), part.column("key")[-1].as_py()
            partition = self._partition(topic, first)
            values = part.column("value").cast(pa.binary()).to_pylist()
            self._topics.append(topic, [Record(first, value, partition) for value in values])
            self._last_key[topic] = last

    def _partition(self, topic: str, key: str) -> int:
        """The next one; tasks of one key stay in one partition, and so in their order."""
        if topic not in self._partitions:
            self._partitions[topic] = len(self._topics.bounds(topic))
            self._next[topic] = self._first
        elif key != self._last_key[topic]:
            self._next[topic] += 1
        return self._next[topic] % self._partitions[topic]


def _parts(tasks: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Neighbours stay together, so that they are looked at and deleted together; no key is in two parts."""
    keys, start = tasks.column("key"), 0
    while start < tasks.num_rows:
        end = min(start + _APPEND_RECORDS, tasks.num_rows)
        while end < tasks.num_rows and keys[end] == keys[end - 1]:
            end += 1
        yield tasks.slice(start, end - start)
        start = end


def _counted(tasks: pa.RecordBatch, route: Route) -> pa.RecordBatch:
    counts = pc.value_counts(tasks.column("bucket_uid"))
    handed_over = pa.repeat(route.is_handed_over, len(counts))
    return pa.RecordBatch.from_arrays([counts.field("values"), handed_over, counts.field("counts")], schema=COUNTS)


def write_all(writer: TaskWriter, batches: Iterable[pa.RecordBatch]) -> Published:
    published = Published()
    for batch in batches:
        published.add(writer.append(batch))
    return published
