"""The log in numbers: table and topic together, each event once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.assembly import open_topics
from tidegate.core.errors import Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.metalog_statistics import metalog_statistics
from tidegate.pipeline.log import manifest
from tidegate.pipeline.log.manifest import DataFile, Manifest, RejectedFile
from tidegate.ports import Record, Topics
from tidegate.settings import load

DAY = 86_400 * 10**9
TOPIC = "log"


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    opened = open_topics(load(tmp_path), tmp_path)
    opened.create(TOPIC, 2)
    yield opened
    opened.close()


def append(topics: Topics, *events: Event) -> None:
    topics.append(TOPIC, [Record(event.key, event.to_bytes()) for event in events])


def event(kind: EventKind, bucket: str, *, day: int = 0, size: int | None = None, key: str = "k") -> Event:
    return Event(day * DAY + 5, kind, "pool", bucket, "uid", key=key, size=size)


def landed(data: Path, rows: list[dict[str, object]], day: str, **fields: object) -> None:
    folder = data / manifest.DIRECTORY / f"day={day}"
    folder.mkdir(parents=True)
    file = folder / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), file)
    described = DataFile(f"day={day}/a.parquet", day, len(rows), file.stat().st_size, 0, 1, ())
    whole = Manifest(files=(described,), **fields)  # type: ignore[arg-type]
    manifest.store(data / manifest.DIRECTORY / manifest.FILE, whole)


def test_events_of_the_topic_are_counted_before_any_is_landed(topics: Topics, tmp_path: Path) -> None:
    append(
        topics,
        event(EventKind.PUT, "a", size=10),
        event(EventKind.PUT, "b", day=1, size=5, key="l"),
        event(EventKind.DELETE, "a", day=1, size=10),
    )
    topics.append(TOPIC, [Record("x", b"nonsense")])
    view = metalog_statistics(topics, TOPIC, tmp_path, most_buckets=9)
    assert (view.events, view.bytes_put, view.unreadable, view.buckets) == (3, 15, 1, 2)
    assert [(count.name, count.events, count.bytes_put) for count in view.by_operation] == [
        ("delete", 1, 0),
        ("put", 2, 15),
    ]
    assert [(count.name, count.events) for count in view.by_bucket] == [("a", 2), ("b", 1)]
    assert [(count.name, count.events) for count in view.by_day] == [("1970-01-01", 1), ("1970-01-02", 2)]
    assert (view.topic.records, view.topic.appended, view.topic.not_landed, view.topic.partitions) == (4, 4, 4, 2)
    assert (view.table.files, view.table.events, view.table.first_day, view.table.complete_since) == (0, 0, "", None)


def test_what_is_landed_is_not_counted_again(topics: Topics, tmp_path: Path) -> None:
    append(topics, *(event(EventKind.PUT, "a", size=1, key=f"k{number}") for number in range(10)))
    rows: list[dict[str, object]] = [{"operation": "put", "bucket": "a", "size": 1, "more": 1}] * 9
    rows.append({"operation": "tagging", "bucket": "c", "size": None, "more": 1})
    ends = tuple(following for _, following in topics.bounds(TOPIC))
    rejected = (RejectedFile("_rejected/x", 2),)
    landed(tmp_path, rows, "2026-01-31", next_offsets=ends, rejected=rejected, horizon_ns=3 * DAY)
    append(topics, event(EventKind.DELETE, "a"))
    view = metalog_statistics(topics, TOPIC, tmp_path, most_buckets=1)
    assert (view.events, view.bytes_put, view.buckets) == (11, 9, 2)
    assert [(count.name, count.events) for count in view.by_bucket] == [("a", 10)]
    assert [count.name for count in view.by_day] == ["1970-01-01", "2026-01-31"]
    assert (view.topic.records, view.topic.not_landed) == (11, 1)
    table = view.table
    assert (table.files, table.events, table.rejected, table.days, table.first_day) == (1, 10, 2, 1, "2026-01-31")
    assert table.bytes > 0 and table.complete_since == datetime(1970, 1, 4, tzinfo=UTC)


def test_records_that_the_topic_forgot_after_landing_still_count(topics: Topics, tmp_path: Path) -> None:
    append(topics, *(event(EventKind.PUT, "a", key=f"k{number}") for number in range(10)))
    ends = tuple(following for _, following in topics.bounds(TOPIC))
    landed(tmp_path, [{"operation": "put", "bucket": "a", "size": 0}] * 10, "2026-01-31", next_offsets=ends)
    for partition, end in enumerate(ends):
        topics.trim(TOPIC, partition, end)
    view = metalog_statistics(topics, TOPIC, tmp_path, most_buckets=1)
    assert (view.events, view.topic.records, view.topic.appended, view.topic.not_landed) == (10, 0, 10, 0)


def test_a_damaged_file_is_named(topics: Topics, tmp_path: Path) -> None:
    landed(tmp_path, [{"operation": "put", "bucket": "a", "size": 0}], "2026-01-31")
    file = tmp_path / manifest.DIRECTORY / "day=2026-01-31" / "a.parquet"
    file.write_bytes(b"nonsense")
    with pytest.raises(Unavailable, match=r"a\.parquet cannot be read"):
        metalog_statistics(topics, TOPIC, tmp_path, most_buckets=1)
    file.unlink()
    with pytest.raises(Unavailable, match="changed all the time"):
        metalog_statistics(topics, TOPIC, tmp_path, most_buckets=1)
