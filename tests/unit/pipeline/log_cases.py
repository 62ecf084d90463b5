"""A topic of events, and a table beside it."""

from __future__ import annotations

from tidegate.adapters.file_topics import FileTopics
from tidegate.core.events import Event, EventKind
from tidegate.pipeline.log.landing import land
from tidegate.pipeline.log.log_table import LogTable
from tidegate.ports import Record

TOPIC = "metadata-log"
PARTITIONS = 3
DAY_NS = 86_400 * 10**9
# 2024-10-04 00:00 UTC.
MIDNIGHT = 20_000 * DAY_NS
NOW = MIDNIGHT + 10 * DAY_NS


def put(number, *, key=None, ts_ns=None, **fields):
    moment = MIDNIGHT + number if ts_ns is None else ts_ns
    return Event(moment, EventKind.PUT, "pool", "bucket", "uid", "owner", key or f"key-{number}", size=number, **fields)


class Log:
    def __init__(self, spark, data):
        self.spark = spark
        self.data = data
        self.topics = FileTopics(data / "topics", lease_seconds=10)
        self.topics.create(TOPIC, PARTITIONS)
        self.table = LogTable(data)

    def append(self, *events):
        self.append_raw(*((f"{event.bucket}/{event.key}", event.to_bytes()) for event in events))

    def append_raw(self, *records):
        self.topics.append(TOPIC, [Record(key, value) for key, value in records])

    def land(self, **options):
        return land(self.spark, self.table, self.topics, TOPIC, now_ns=NOW, **options)

    def rows(self, **options):
        return self.table.read(self.spark, **options).collect()

    def sizes(self, **options):
        """What tells the events of `put` apart."""
        return sorted(row.size for row in self.rows(columns=["size"], **options))

    def parquet_files(self):
        return {str(path.relative_to(self.table.path)) for path in self.table.path.rglob("*.parquet")}

    def trim(self, before):
        for partition in range(PARTITIONS):
            self.topics.trim(TOPIC, partition, before)

    def close(self):
        self.topics.close()
