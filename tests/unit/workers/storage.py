"""Real tables and topics, embedded, for workers of tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.ports import Record

LEASE_SECONDS = 10.0


class Storage:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tables = SqliteTables(directory / "tables.db")
        self.topics = FileTopics(directory / "topics", lease_seconds=LEASE_SECONDS)

    def append(self, topic: str, values: Iterable[bytes]) -> None:
        self.topics.create(topic, 2)
        self.topics.append(topic, [Record(str(number), value) for number, value in enumerate(values)])

    def values(self, topic: str) -> list[bytes]:
        if topic not in self.topics.names():
            return []
        bounds = enumerate(self.topics.bounds(topic))
        return [
            message.value
            for partition, (first, following) in bounds
            if following > first
            for message in self.topics.read(topic, partition, first, following - first)
        ]

    def close(self) -> None:
        self.topics.close()
        self.tables.close()
