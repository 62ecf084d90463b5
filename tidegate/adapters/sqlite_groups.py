"""Consumer groups as rows of a SQLite file: who owns which partition, and how far the group has come.

A member keeps its partitions as long as it renews its lease (`member_leases`). A member that let it lapse is put out
by any other, its row is removed and its id is never used again, so whatever it says later can be told from what the new
owner says.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.adapters.member_leases import Member
from tidegate.ports import Message

SCHEMA = """
CREATE TABLE IF NOT EXISTS groups (
    id INTEGER PRIMARY KEY,
    topic TEXT NOT NULL,
    name TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, name)
);
CREATE TABLE IF NOT EXISTS members (
    id INTEGER PRIMARY KEY AUTOINCREMENT, group_id INTEGER NOT NULL, slot INTEGER NOT NULL UNIQUE, lease REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS progress (
    group_id INTEGER NOT NULL, partition INTEGER NOT NULL, committed INTEGER NOT NULL DEFAULT 0, owner INTEGER,
    PRIMARY KEY (group_id, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS done (
    group_id INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (group_id, partition, offset)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS retries (
    group_id INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    attempt INTEGER NOT NULL, not_before REAL NOT NULL,
    key TEXT NOT NULL, value BLOB NOT NULL, appended_at REAL NOT NULL,
    UNIQUE (group_id, partition, offset)
);
CREATE INDEX IF NOT EXISTS retries_by_time ON retries (group_id, partition, not_before);
"""


@dataclass(frozen=True, slots=True)
class Group:
    id: int
    topic: str
    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a group has come in one partition."""

    committed: int
    done: frozenset[int]
    retries: int

    def lag(self, first: int, end: int) -> int:
        """What is not finished of a partition with those bounds. What was trimmed counts as done."""
        start = max(self.committed, first)
        return end - start - sum(offset >= start for offset in self.done) + self.retries


def find(connection: sqlite3.Connection, topic: str, name: str) -> Group | None:
    row = connection.execute("SELECT id, partitions FROM groups WHERE topic = ? AND name = ?", (topic, name)).fetchone()
    return Group(row[0], topic, name, row[1]) if row else None


def create(connection: sqlite3.Connection, topic: str, name: str, partitions: int) -> Group:
    """The group, made at the beginning of the topic if it does not exist."""
    existing = find(connection, topic, name)
    if existing:
        return existing
    cursor = connection.execute(
        "INSERT INTO groups (topic, name, partitions) VALUES (?, ?, ?)", (topic, name, partitions)
    )
    assert cursor.lastrowid
    connection.executemany(
        "INSERT INTO progress (group_id, partition) VALUES (?, ?)",
        [(cursor.lastrowid, partition) for partition in range(partitions)],
    )
    return Group(cursor.lastrowid, topic, name, partitions)


def generation(connection: sqlite3.Connection, group: Group) -> int:
    """Grows whenever the partitions may have to be shared out anew."""
    found: int = connection.execute("SELECT generation FROM groups WHERE id = ?", (group.id,)).fetchone()[0]
    return found


def join(connection: sqlite3.Connection, group: Group, slot: int, lease: float) -> Member:
    """A new member."""
    cursor = connection.execute("INSERT INTO members (group_id, slot, lease) VALUES (?, ?, ?)", (group.id, slot, lease))
    _share_out_anew(connection, group)
    assert cursor.lastrowid
    return Member(cursor.lastrowid, slot, lease)


def slots(connection: sqlite3.Connection) -> set[int]:
    """Those of the members of all groups."""
    return {row[0] for row in connection.execute("SELECT slot FROM members")}


def members(connection: sqlite3.Connection, group: Group) -> list[Member]:
    rows = connection.execute("SELECT id, slot, lease FROM members WHERE group_id = ? ORDER BY id", (group.id,))
    return [Member(*row) for row in rows]


def remove(connection: sqlite3.Connection, group: Group, gone: Iterable[Member]) -> None:
    """Of members that left, or were put out."""
    connection.executemany("DELETE FROM members WHERE id = ?", [(member.id,) for member in gone])
    connection.execute(
        "UPDATE progress SET owner = NULL WHERE group_id = ? AND owner NOT IN"
        " (SELECT id FROM members WHERE group_id = ?)",
        (group.id, group.id),
    )
    _share_out_anew(connection, group)


def _share_out_anew(connection: sqlite3.Connection, group: Group) -> None:
    connection.execute("UPDATE groups SET generation = generation + 1 WHERE id = ?", (group.id,))


def fair_share(partitions: int, members: Sequence[Member], member: Member) -> set[int]:
    """The partitions that fall to a member when all members take turns."""
    return {partition for partition in range(partitions) if members[partition % len(members)] == member}


def owned(connection: sqlite3.Connection, group: Group, member: Member) -> set[int]:
    rows = connection.execute("SELECT partition FROM progress WHERE group_id = ? AND owner = ?", (group.id, member.id))
    return {row[0] for row in rows}


def claim(connection: sqlite3.Connection, group: Group, member: Member, partition: int) -> bool:
    """True if the partition was free and is the member's now."""
    cursor = connection.execute(
        "UPDATE progress SET owner = ? WHERE group_id = ? AND partition = ? AND owner IS NULL",
        (member.id, group.id, partition),
    )
    return cursor.rowcount > 0


def release(connection: sqlite3.Connection, group: Group, member: Member, partition: int) -> None:
    connection.execute(
        "UPDATE progress SET owner = NULL WHERE group_id = ? AND partition = ? AND owner = ?",
        (group.id, partition, member.id),
    )
    _share_out_anew(connection, group)


def progress(connection: sqlite3.Connection, group: Group) -> dict[int, Progress]:
    """By partition."""
    done: dict[int, set[int]] = {}
    for partition, offset in connection.execute("SELECT partition, offset FROM done WHERE group_id = ?", (group.id,)):
        done.setdefault(partition, set()).add(offset)
    retries = dict(
        connection.execute("SELECT partition, count(*) FROM retries WHERE group_id = ? GROUP BY partition", (group.id,))
    )
    rows = connection.execute("SELECT partition, committed FROM progress WHERE group_id = ?", (group.id,))
    return {
        partition: Progress(committed, frozenset(done.get(partition, ())), retries.get(partition, 0))
        for partition, committed in rows
    }


def finish(connection: sqlite3.Connection, group: Group, partition: int, first: int, offsets: Iterable[int]) -> None:
    """Moves the committed offset over what is done without a gap and remembers what is done beyond. The partition
    begins with the offset `first`: what was trimmed counts as done."""
    row = connection.execute(
        "SELECT committed FROM progress WHERE group_id = ? AND partition = ?", (group.id, partition)
    ).fetchone()
    reached = start = max(row[0], first)
    beyond = []
    for offset in sorted(offsets):
        if offset == reached:
            reached += 1
        elif offset > reached:
            beyond.append((group.id, partition, offset))
    connection.executemany("INSERT OR IGNORE INTO done (group_id, partition, offset) VALUES (?, ?, ?)", beyond)
    remembered = connection.execute(
        "SELECT offset FROM done WHERE group_id = ? AND partition = ? AND offset >= ? ORDER BY offset",
        (group.id, partition, reached),
    )
    for (offset,) in remembered:
        if offset != reached:
            break
        reached += 1
    if reached > start:
        _commit(connection, group, partition, reached)


def _commit(connection: sqlite3.Connection, group: Group, partition: int, offset: int) -> None:
    connection.execute(
        "UPDATE progress SET committed = ? WHERE group_id = ? AND partition = ?", (offset, group.id, partition)
    )
    connection.execute(
        "DELETE FROM done WHERE group_id = ? AND partition = ? AND offset < ?", (group.id, partition, offset)
    )


def due_retries(connection: sqlite3.Connection, group: Group, partition: int, now: float, limit: int) -> list[Message]:
    rows = connection.execute(
        "SELECT offset, key, value, appended_at, attempt FROM retries"
        " WHERE group_id = ? AND partition = ? AND not_before <= ? ORDER BY not_before LIMIT ?",
        (group.id, partition, now, limit),
    )
    return [Message(group.topic, partition, *row) for row in rows]


def retry_times(
    connection: sqlite3.Connection, group: Group, partition: int, limit: int
) -> list[tuple[float, int, int]]:
    """The next retries, as (not before, offset, attempt)."""
    return connection.execute(
        "SELECT not_before, offset, attempt FROM retries WHERE group_id = ? AND partition = ?"
        " ORDER BY not_before LIMIT ?",
        (group.id, partition, limit),
    ).fetchall()


def put_retry(connection: sqlite3.Connection, group: Group, message: Message, not_before: float) -> None:
    where = (group.id, message.partition, message.offset)
    content = (message.attempt + 1, not_before, message.key, message.value, message.appended_at)
    connection.execute(
        "INSERT OR REPLACE INTO retries"
        " (group_id, partition, offset, attempt, not_before, key, value, appended_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*where, *content),
    )


def drop_retry(connection: sqlite3.Connection, group: Group, message: Message) -> None:
    connection.execute(
        "DELETE FROM retries WHERE group_id = ? AND partition = ? AND offset = ? AND attempt = ?",
        (group.id, message.partition, message.offset, message.attempt),
    )
