"""The metadata log in numbers: events that are landed are counted in the log table, the others in the topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, Field

from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.pipeline.log import manifest
from tidegate.pipeline.log.manifest import DataFile, Manifest
from tidegate.ports import Topics
from tidegate.topic_pages import messages

_BATCH_ROWS = 262_144
_TRIES = 3
_COLUMNS = ["operation", "bucket", "size"]


class CountView(BaseModel):
    """Events of one kind."""

    name: str
    events: int
    bytes_put: int


class TopicView(BaseModel):
    """The topic that the gateways write."""

    name: str
    partitions: int
    records: int = Field(description="That the topic still holds.")
    appended: int = Field(description="That were ever appended.")
    not_landed: int = Field(description="That wait for the next pass to take them into the table.")


class TableView(BaseModel):
    """The log as a table, which passes read."""

    path: str
    files: int
    bytes: int
    events: int
    rejected: int = Field(description="Records of the topic that are no events; they are kept beside the table.")
    days: int
    first_day: str
    last_day: str
    complete_since: datetime | None = Field(description="Older events were dropped; none: nothing was.")


class MetalogStatisticsView(BaseModel):
    """The metadata log in numbers. The events are those of table and topic, each counted once."""

    events: int
    bytes_put: int
    unreadable: int = Field(description="Records that wait in the topic and are no events.")
    by_operation: list[CountView]
    by_bucket: list[CountView] = Field(description="The buckets with the most events.")
    buckets: int
    by_day: list[CountView] = Field(description="UTC days, the earliest first.")
    topic: TopicView
    table: TableView


class _Counts:
    """Events and bytes by name."""

    def __init__(self) -> None:
        self._events: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, name: str, events: int, size: int) -> None:
        self._events[name] += events
        self._bytes[name] += size

    def views(self) -> list[CountView]:
        names = sorted(self._events)
        return [CountView(name=name, events=self._events[name], bytes_put=self._bytes[name]) for name in names]


@dataclass(slots=True)
class _Tally:
    days: _Counts = field(default_factory=_Counts)
    operations: _Counts = field(default_factory=_Counts)
    buckets: _Counts = field(default_factory=_Counts)
    unreadable: int = 0

    def add(self, day: str, operation: str, bucket: str, events: int, size: int) -> None:
        put = size if operation == EventKind.PUT.value else 0
        self.days.add(day, events, put)
        self.operations.add(operation, events, put)
        self.buckets.add(bucket, events, put)


def metalog_statistics(topics: Topics, topic: str, data: Path, *, most_buckets: int) -> MetalogStatisticsView:
    """`data` is the data directory; the topic must exist."""
    folder = data / manifest.DIRECTORY
    known, tally = _of_table(folder)
    bounds = topics.bounds(topic)
    landed = [*known.next_offsets, *(0 for _ in bounds)]
    waiting = [(max(first, landed[number]), following) for number, (first, following) in enumerate(bounds)]
    for partition, (offset, following) in enumerate(waiting):
        _add_records(tally, topics, topic, partition, offset, following)
    operations, buckets = tally.operations.views(), tally.buckets.views()
    return MetalogStatisticsView(
        events=sum(count.events for count in operations),
        bytes_put=sum(count.bytes_put for count in operations),
        unreadable=tally.unreadable,
        by_operation=operations,
        by_bucket=sorted(buckets, key=lambda view: (-view.events, view.name))[:most_buckets],
        buckets=len(buckets),
        by_day=tally.days.views(),
        topic=TopicView(
            name=topic,
            partitions=len(bounds),
            records=sum(following - first for first, following in bounds),
            appended=sum(following for _, following in bounds),
            not_landed=sum(max(following - offset, 0) for offset, following in waiting),
        ),
        table=_view_table(folder, known),
    )


def _of_table(folder: Path) -> tuple[Manifest, _Tally]:
    for _ in range(_TRIES):
        known, tally = manifest.load(folder / manifest.FILE), _Tally()
        try:
            for file in known.files:
                _add_file(tally, folder, file)
            return known, tally
        except FileNotFoundError:  # merged or dropped meanwhile: the manifest names others now
            continue
    raise Unavailable(f"{folder} is being changed all the time; try again later")


def _add_file(tally: _Tally, folder: Path, file: DataFile) -> None:
    for batch in _batches(folder / file.path):
        for operation, bucket, size, count in batch:
            tally.add(file.day, operation, bucket, count, size)


def _batches(path: Path) -> Iterator[list[tuple[str, str, int, int]]]:
    """Operation, bucket, sum of sizes and number of events."""
    import pyarrow as pa  # only here: it takes long to load
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(path).iter_batches(_BATCH_ROWS, columns=_COLUMNS):
            grouped = pa.Table.from_batches([batch]).group_by(["operation", "bucket"])
            sums = grouped.aggregate([("size", "sum"), ("operation", "count")]).to_pylist()
            yield [(row["operation"], row["bucket"], row["size_sum"] or 0, row["operation_count"]) for row in sums]
    except pa.ArrowException as error:
        raise Unavailable(f"{path} cannot be read: {error}") from None


def _add_records(tally: _Tally, topics: Topics, topic: str, partition: int, offset: int, following: int) -> None:
    for message in messages(topics, topic, partition, offset, following):
        try:
            event = Event.from_bytes(message.value)
        except InvalidInput:
            tally.unreadable += 1
            continue
        day = datetime.fromtimestamp(event.ts_ns / 1e9, UTC).date().isoformat()
        tally.add(day, event.operation.value, event.bucket, 1, event.size or 0)


def _view_table(folder: Path, known: Manifest) -> TableView:
    days = list(known.days())
    return TableView(
        path=str(folder),
        files=len(known.files),
        bytes=sum(file.size for file in known.files),
        events=known.rows,
        rejected=known.rejected_rows,
        days=len(days),
        first_day=days[0] if days else "",
        last_day=days[-1] if days else "",
        complete_since=datetime.fromtimestamp(known.horizon_ns / 1e9, UTC) if known.horizon_ns else None,
    )
