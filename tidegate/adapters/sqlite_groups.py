"""Consumer groups as rows of a SQLite file: who owns which partition, and how far the group has come.

A member keeps its partitions as long as it renews its lease. A member that let it lapse is put out
by any other, its row is removed and its number is never used again, so whatever it says later can be
told from what the new owner says. Leases are measured with the monotonic clock, which all processes
of a machine share and which no change of the time of day disturbs; after a reboot it begins anew,
and a lease from the future is known to be dead.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.adapters.sqlite_log import OFFSET_BITS, Topic
from tidegate.ports import Message

SCHEMA = """
CREATE TABLE IF NOT EXISTS groups (
    id INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL REFERENCES topics (id),
    name TEXT NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, name)
);
CREATE TABLE IF NOT EXISTS members (
    id INTEGER PRIMARY KEY AUTOINCREMENT, group_id INTEGER NOT NULL, renewed_at REAL NOT NULL, lease REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS progress (
    group_id INTEGER NOT NULL, partition_id INTEGER NOT NULL, committed INTEGER NOT NULL DEFAULT 0, owner INTEGER,
    PRIMARY KEY (group_id, partition_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS done (
    group_id INTEGER NOT NULL, partition_id INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (group_id, partition_id, offset)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS retries (
    group_id INTEGER NOT NULL, partition_id INTEGER NOT NULL, offset INTEGER NOT NULL,
    attempt INTEGER NOT NULL, not_before REAL NOT NULL,
    key TEXT NOT NULL, value BLOB NOT NULL, appended_at REAL NOT NULL,
    UNIQUE (group_id, partition_id, offset)
);
CREATE INDEX IF NOT EXISTS retries_by_time ON retries (group_id, partition_id, not_before);
"""


@dataclass(frozen=True, slots=True)
class Group:
    id: int
    topic: Topic
    name: str


def find(connection: sqlite3.Connection, topic: Topic, name: str) -> Group | None:
    row = connection.execute("SELECT id FROM groups WHERE topic = ? AND name = ?", (topic.id, name)).fetchone()
    return Group(row[0], topic, name) if row else None


def create(connection: sqlite3.Connection, topic: Topic, name: str) -> Group:
    """The group, made at the beginning of the topic if it does not exist."""
    existing = find(connection, topic, name)
    if existing:
        return existing
    cursor = connection.execute("INSERT INTO groups (topic, name) VALUES (?, ?)", (topic.id, name))
    assert cursor.lastrowid
    connection.executemany(
        "INSERT INTO progress (group_id, partition_id) VALUES (?, ?)",
        [(cursor.lastrowid, partition_id) for partition_id in topic.partition_ids],
    )
    return Group(cursor.lastrowid, topic, name)


def generation(connection: sqlite3.Connection, group: Group) -> int:
    """Grows whenever the partitions may have to be shared out anew."""
    found: int = connection.execute("SELECT generation FROM groups WHERE id = ?", (group.id,)).fetchone()[0]
    return found


def join(connection: sqlite3.Connection, group: Group, now: float, lease: float) -> int:
    """A new member's number."""
    cursor = connection.execute(
        "INSERT INTO members (group_id, renewed_at, lease) VALUES (?, ?, ?)", (group.id, now, lease)
    )
    _share_out_anew(connection, group)
    assert cursor.lastrowid
    return cursor.lastrowid


def leave(connection: sqlite3.Connection, group: Group, member: int) -> None:
    connection.execute("DELETE FROM members WHERE id = ?", (member,))
    _free_partitions_without_owner(connection, group)


def renew(connection: sqlite3.Connection, member: int, now: float) -> bool:
    """False if the member has been put out."""
    return connection.execute("UPDATE members SET renewed_at = ? WHERE id = ?", (now, member)).rowcount > 0


def put_out_silent(connection: sqlite3.Connection, group: Group, now: float) -> None:
    put_out = connection.execute(
        "DELETE FROM members WHERE group_id = ? AND NOT (renewed_at <= ? AND renewed_at + lease > ?)",
        (group.id, now, now),
    ).rowcount
    if put_out:
        _free_partitions_without_owner(connection, group)


def _free_partitions_without_owner(connection: sqlite3.Connection, group: Group) -> None:
    connection.execute(
        "UPDATE progress SET owner = NULL WHERE group_id = ? AND owner NOT IN"
        " (SELECT id FROM members WHERE group_id = ?)",
        (group.id, group.id),
    )
    _share_out_anew(connection, group)


def _share_out_anew(connection: sqlite3.Connection, group: Group) -> None:
    connection.execute("UPDATE groups SET generation = generation + 1 WHERE id = ?", (group.id,))


def fair_share(connection: sqlite3.Connection, group: Group, member: int) -> set[int]:
    """The partitions that fall to a member when all members take turns."""
    rows = connection.execute("SELECT id FROM members WHERE group_id = ? ORDER BY id", (group.id,))
    members = [row[0] for row in rows]
    return {
        partition_id
        for index, partition_id in enumerate(group.topic.partition_ids)
        if members[index % len(members)] == member
    }


def owned(connection: sqlite3.Connection, group: Group, member: int) -> set[int]:
    rows = connection.execute("SELECT partition_id FROM progress WHERE group_id = ? AND owner = ?", (group.id, member))
    return {row[0] for row in rows}


def claim(connection: sqlite3.Connection, group: Group, member: int, partition_id: int) -> bool:
    """True if the partition was free and is the member's now."""
    cursor = connection.execute(
        "UPDATE progress SET owner = ? WHERE group_id = ? AND partition_id = ? AND owner IS NULL",
        (member, group.id, partition_id),
    )
    return cursor.rowcount > 0


def release(connection: sqlite3.Connection, group: Group, member: int, partition_id: int) -> None:
    connection.execute(
        "UPDATE progress SET owner = NULL WHERE group_id = ? AND partition_id = ? AND owner = ?",
        (group.id, partition_id, member),
    )
    _share_out_anew(connection, group)


def committed(connection: sqlite3.Connection, group: Group, partition_id: int) -> int:
    """The first offset that is not done; what was trimmed counts as done."""
    row = connection.execute(
        "SELECT max(committed, first_offset) FROM progress JOIN partitions ON partitions.id = partition_id"
        " WHERE group_id = ? AND partition_id = ?",
        (group.id, partition_id),
    ).fetchone()
    offset: int = row[0]
    return offset


def finish(connection: sqlite3.Connection, group: Group, partition_id: int, offsets: Iterable[int]) -> None:
    """Moves the committed offset over what is done without a gap and remembers what is done beyond."""
    reached = start = committed(connection, group, partition_id)
    beyond = []
    for offset in sorted(offsets):
        if offset == reached:
            reached += 1
        elif offset > reached:
            beyond.append((group.id, partition_id, offset))
    connection.executemany("INSERT OR IGNORE INTO done (group_id, partition_id, offset) VALUES (?, ?, ?)", beyond)
    remembered = connection.execute(
        "SELECT offset FROM done WHERE group_id = ? AND partition_id = ? AND offset >= ? ORDER BY offset",
        (group.id, partition_id, reached),
    )
    for (offset,) in remembered:
        if offset != reached:
            break
        reached += 1
    if reached > start:
        _commit(connection, group, partition_id, reached)


def _commit(connection: sqlite3.Connection, group: Group, partition_id: int, offset: int) -> None:
    connection.execute(
        "UPDATE progress SET committed = ? WHERE group_id = ? AND partition_id = ?", (offset, group.id, partition_id)
    )
    connection.execute(
        "DELETE FROM done WHERE group_id = ? AND partition_id = ? AND offset < ?", (group.id, partition_id, offset)
    )


def unfinished(connection: sqlite3.Connection, group: Group, partition: int, offset: int, limit: int) -> list[Message]:
    """Messages from `offset` on that no member has finished, at their first delivery."""
    partition_id = group.topic.partition_ids[partition]
    base = partition_id << OFFSET_BITS
    rows = connection.execute(
        "SELECT position, key, value, appended_at FROM messages"
        " WHERE position >= ?1 + max(?2, (SELECT first_offset FROM partitions WHERE id = ?3)) AND position < ?4"
        " AND NOT EXISTS (SELECT 1 FROM done WHERE group_id = ?5 AND partition_id = ?3 AND offset = position - ?1)"
        " ORDER BY position LIMIT ?6",
        (base, offset, partition_id, base + (1 << OFFSET_BITS), group.id, limit),
    )
    name = group.topic.name
    return [Message(name, partition, position - base, key, value, at) for position, key, value, at in rows]


def due_retries(connection: sqlite3.Connection, group: Group, partition: int, now: float, limit: int) -> list[Message]:
    rows = connection.execute(
        "SELECT offset, key, value, appended_at, attempt FROM retries"
        " WHERE group_id = ? AND partition_id = ? AND not_before <= ? ORDER BY not_before LIMIT ?",
        (group.id, group.topic.partition_ids[partition], now, limit),
    )
    return [Message(group.topic.name, partition, *row) for row in rows]


def put_retry(connection: sqlite3.Connection, group: Group, message: Message, not_before: float) -> None:
    where = (group.id, group.topic.partition_ids[message.partition], message.offset)
    content = (message.attempt + 1, not_before, message.key, message.value, message.appended_at)
    connection.execute(
        "INSERT OR REPLACE INTO retries"
        " (group_id, partition_id, offset, attempt, not_before, key, value, appended_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*where, *content),
    )


def drop_retry(connection: sqlite3.Connection, group: Group, message: Message) -> None:
    connection.execute(
        "DELETE FROM retries WHERE group_id = ? AND partition_id = ? AND offset = ? AND attempt = ?",
        (group.id, group.topic.partition_ids[message.partition], message.offset, message.attempt),
    )


def lag(connection: sqlite3.Connection, group: Group) -> int:
    found: int = connection.execute(
        "SELECT (SELECT sum(next_offset - max(committed, first_offset)) FROM progress"
        " JOIN partitions ON partitions.id = progress.partition_id WHERE group_id = ?1)"
        " - (SELECT count(*) FROM done JOIN partitions ON partitions.id = done.partition_id"
        " WHERE group_id = ?1 AND offset >= first_offset)"
        " + (SELECT count(*) FROM retries WHERE group_id = ?1)",
        (group.id,),
    ).fetchone()[0]
    return found
