"""`Topics` in one SQLite file: the embedded default, for one machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate.adapters import limits, sqlite_groups, sqlite_log
from tidegate.adapters.sqlite import Database
from tidegate.adapters.sqlite_consumer import SqliteConsumer
from tidegate.adapters.sqlite_log import Topic
from tidegate.core.errors import NotFound
from tidegate.ports import Consumer, Message, Record

TRIM_ROWS = 10_000


class SqliteTopics:
    def __init__(self, path: Path, *, lease_seconds: float = 10.0) -> None:
        self._database = Database(path, sqlite_log.SCHEMA + sqlite_groups.SCHEMA)
        self._lease_seconds = lease_seconds
        self._known: dict[str, Topic] = {}

    def create(self, topic: str, partitions: int) -> None:
        limits.topic_name(topic)
        limits.partition_count(partitions)
        with self._database.write() as connection:
            sqlite_log.create(connection, topic, partitions)

    def names(self) -> list[str]:
        with self._database.read() as connection:
            return sqlite_log.names(connection)

    def append(self, topic: str, records: Sequence[Record]) -> None:
        keys = limits.message_keys(records)
        found = self._find(topic)
        if records:
            with self._database.write() as connection:
                sqlite_log.append(connection, found, keys, records)

    def probe(self, topic: str) -> None:
        self._find(topic)
        with self._database.write() as connection:
            sqlite_log.write_and_remove(connection)

    def consumer(self, topic: str, group: str) -> Consumer:
        limits.group_name(group)
        found = self._find(topic)
        with self._database.write() as connection:
            joined = sqlite_groups.create(connection, found, group)
        return SqliteConsumer(self._database, joined, self._lease_seconds)

    def lag(self, topic: str, group: str) -> int:
        limits.group_name(group)
        found = self._find(topic)
        with self._database.snapshot() as connection:
            known = sqlite_groups.find(connection, found, group)
            if known:
                return sqlite_groups.lag(connection, known)
            return sum(end - first for first, end in sqlite_log.bounds(connection, found))

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Message]:
        limits.scan_limit(limit)
        found = self._find(topic)
        with self._database.read() as connection:
            return sqlite_log.read(connection, found, partition, offset, limit)

    def bounds(self, topic: str) -> list[tuple[int, int]]:
        found = self._find(topic)
        with self._database.read() as connection:
            return sqlite_log.bounds(connection, found)

    def trim(self, topic: str, partition: int, before: int) -> None:
        partition_id = self._find(topic).partition_id(partition)
        with self._database.write() as connection:
            sqlite_log.forget(connection, partition_id, before)
        # In short transactions, so that appending goes on meanwhile.
        removed = TRIM_ROWS
        while removed == TRIM_ROWS:
            with self._database.write() as connection:
                removed = sqlite_log.remove_forgotten(connection, partition_id, TRIM_ROWS)

    def close(self) -> None:
        self._database.close()

    def _find(self, name: str) -> Topic:
        known = self._known.get(name)
        if known:
            return known
        limits.topic_name(name)
        with self._database.read() as connection:
            found = sqlite_log.find(connection, name)
        if not found:
            raise NotFound(f"there is no topic {name!r}")
        self._known[name] = found
        return found
