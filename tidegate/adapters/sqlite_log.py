"""Topics as rows of a SQLite file: creating, appending, reading and trimming within a transaction.

A partition has a number of its own, and a message the number `partition id * 2^40 + offset`, so that
a partition lies together in the file and reading it on is one range of the primary key.
Offsets are given out inside the transaction that adds the rows: readers never see a gap.
"""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.errors import NotFound
from tidegate.ports import Message, Record

OFFSET_BITS = 40

SCHEMA = """
CREATE TABLE IF NOT EXISTS topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS partitions (
    id INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL REFERENCES topics (id),
    partition INTEGER NOT NULL,
    first_offset INTEGER NOT NULL DEFAULT 0,
    next_offset INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, partition)
);
CREATE TABLE IF NOT EXISTS messages (
    position INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB NOT NULL, appended_at REAL NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and the ids of its partitions, in order. It never changes once it is made."""

    id: int
    name: str
    partition_ids: tuple[int, ...]

    def partition_id(self, partition: int) -> int:
        if not 0 <= partition < len(self.partition_ids):
            raise NotFound(f"the topic {self.name!r} has no partition {partition}")
        return self.partition_ids[partition]


def find(connection: sqlite3.Connection, name: str) -> Topic | None:
    rows = connection.execute(
        "SELECT topics.id, partitions.id FROM topics JOIN partitions ON partitions.topic = topics.id"
        " WHERE name = ? ORDER BY partition",
        (name,),
    ).fetchall()
    return Topic(rows[0][0], name, tuple(row[1] for row in rows)) if rows else None


def write_and_remove(connection: sqlite3.Connection) -> None:
    """Makes the transaction write to the disk, and changes nothing. No message has a negative position."""
    connection.execute("INSERT INTO messages VALUES (-1, '', x'', 0)")
    connection.execute("DELETE FROM messages WHERE position = -1")


def create(connection: sqlite3.Connection, name: str, partitions: int) -> Topic:
    """The topic, made if it does not exist."""
    existing = find(connection, name)
    if existing:
        return existing
    topic = connection.execute("INSERT INTO topics (name) VALUES (?)", (name,)).lastrowid
    connection.executemany(
        "INSERT INTO partitions (topic, partition) VALUES (?, ?)", [(topic, number) for number in range(partitions)]
    )
    created = find(connection, name)
    assert created
    return created


def partition_of(key: bytes, partitions: int) -> int:
    """Stable over processes and versions: equal keys always meet in one partition."""
    return zlib.crc32(key) % partitions


def append(connection: sqlite3.Connection, topic: Topic, keys: Sequence[bytes], records: Sequence[Record]) -> None:
    count = len(topic.partition_ids)
    chosen = [
        topic.partition_id(partition_of(key, count) if record.partition is None else record.partition)
        for key, record in zip(keys, records, strict=True)
    ]
    ends = {
        partition_id: connection.execute("SELECT next_offset FROM partitions WHERE id = ?", (partition_id,)).fetchone()[
            0
        ]
        for partition_id in set(chosen)
    }
    appended_at = time.time()
    rows = []
    for partition_id, record in zip(chosen, records, strict=True):
        offset = ends[partition_id]
        rows.append(((partition_id << OFFSET_BITS) + offset, record.key, record.value, appended_at))
        ends[partition_id] = offset + 1
    connection.executemany("INSERT INTO messages (position, key, value, appended_at) VALUES (?, ?, ?, ?)", rows)
    connection.executemany(
        "UPDATE partitions SET next_offset = ? WHERE id = ?", [(end, identity) for identity, end in ends.items()]
    )


def read(connection: sqlite3.Connection, topic: Topic, partition: int, offset: int, limit: int) -> list[Message]:
    partition_id = topic.partition_id(partition)
    base = partition_id << OFFSET_BITS
    rows = connection.execute(
        "SELECT position, key, value, appended_at FROM messages"
        " WHERE position >= ? + max(?, (SELECT first_offset FROM partitions WHERE id = ?)) AND position < ?"
        " ORDER BY position LIMIT ?",
        (base, offset, partition_id, base + (1 << OFFSET_BITS), limit),
    )
    name = topic.name
    return [Message(name, partition, position - base, key, value, at) for position, key, value, at in rows]


def bounds(connection: sqlite3.Connection, topic: Topic) -> list[tuple[int, int]]:
    return connection.execute(
        "SELECT first_offset, next_offset FROM partitions WHERE topic = ? ORDER BY partition", (topic.id,)
    ).fetchall()


def forget(connection: sqlite3.Connection, partition_id: int, before: int) -> None:
    """Makes the messages invisible; `remove_forgotten` frees their space."""
    connection.execute(
        "UPDATE partitions SET first_offset = min(?, next_offset) WHERE id = ? AND first_offset < ?",
        (before, partition_id, before),
    )


def remove_forgotten(connection: sqlite3.Connection, partition_id: int, limit: int) -> int:
    """Removes up to `limit` invisible messages; returns how many it found."""
    base = partition_id << OFFSET_BITS
    return connection.execute(
        "DELETE FROM messages WHERE position IN (SELECT position FROM messages WHERE position >= ?"
        " AND position < ? + (SELECT first_offset FROM partitions WHERE id = ?) ORDER BY position LIMIT ?)",
        (base, base, partition_id, limit),
    ).rowcount


def names(connection: sqlite3.Connection) -> list[str]:
    return sorted(row[0] for row in connection.execute("SELECT name FROM topics"))
