"""`Tables` in one SQLite file: the embedded default, for one machine.

Keys are stored as their UTF-8 bytes, whose order is the order of the port. Expiry goes by the
wall clock: an expired row is invisible at once and removed by a later write.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path

from tidegate.adapters import limits
from tidegate.adapters.group_commit import GroupCommit
from tidegate.adapters.sqlite import Database
from tidegate.ports import NOTHING_EXPECTED

SWEEP_SECONDS = 30.0
SWEEP_ROWS = 1000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value TEXT NOT NULL, expires_at REAL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_by_expiry ON entries (expires_at) WHERE expires_at IS NOT NULL;
"""
_LIVE = "(expires_at IS NULL OR expires_at > ?)"
_UPSERT = """
INSERT INTO entries (key, value, expires_at) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
"""
_SWEEP = """
DELETE FROM entries WHERE key IN (SELECT key FROM entries WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)
"""


class SqliteTables:
    reads_at_once = True

    def __init__(self, path: Path) -> None:
        self._database = Database(path, _SCHEMA)
        self._commits = GroupCommit(self._database)
        self._next_sweep = 0.0

    def get(self, key: str) -> str | None:
        encoded = limits.table_key(key)
        with self._database.read() as connection:
            return _live_value(connection, encoded, time.time())

    def put(self, key: str, value: str, *, expires_in: float | None = None) -> None:
        encoded = _checked(key, value, expires_in)

        def write(connection: sqlite3.Connection) -> None:
            now = time.time()
            self._sweep(connection, now)
            _upsert(connection, encoded, value, now, expires_in)

        self._commits.write(write)

    def put_if_absent(self, key: str, value: str, *, expires_in: float | None = None) -> bool:
        return self.compare_and_set(key, None, value, expires_in=expires_in)

    def compare_and_set(
        self, key: str, expected: str | None, value: str | None, *, expires_in: float | None = None
    ) -> bool:
        encoded = _checked(key, value, expires_in)

        def write(connection: sqlite3.Connection) -> bool:
            now = time.time()
            if _live_value(connection, encoded, now) != expected:
                return False
            self._sweep(connection, now)
            if value is None:
                connection.execute("DELETE FROM entries WHERE key = ?", (encoded,))
            else:
                _upsert(connection, encoded, value, now, expires_in)
            return True

        return self._commits.write(write)

    def delete(self, key: str) -> bool:
        encoded = limits.table_key(key)

        def write(connection: sqlite3.Connection) -> bool:
            cursor = connection.execute(f"DELETE FROM entries WHERE key = ? AND {_LIVE}", (encoded, time.time()))
            return cursor.rowcount > 0

        return self._commits.write(write)

    def change(
        self, entries: Mapping[str, str | None], *, expected: Mapping[str, str | None] = NOTHING_EXPECTED
    ) -> bool:
        encoded = {_checked(key, value, None): value for key, value in entries.items()}
        wanted = {limits.table_key(key): value for key, value in expected.items()}
        if not encoded and not wanted:
            return True

        def write(connection: sqlite3.Connection) -> bool:
            now = time.time()
            if any(_live_value(connection, key, now) != value for key, value in wanted.items()):
                return False
            self._sweep(connection, now)
            for key, value in encoded.items():
                if value is None:
                    connection.execute("DELETE FROM entries WHERE key = ?", (key,))
                else:
                    _upsert(connection, key, value, now, None)
            return True

        return self._commits.write(write)

    def scan(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> list[tuple[str, str]]:
        limits.scan_limit(limit)
        start, conditions, bounds = _range(prefix, after)
        query = f"SELECT key, value FROM entries WHERE {start} {conditions} AND {_LIVE} ORDER BY key LIMIT ?"
        with self._database.read() as connection:
            rows = connection.execute(query, (*bounds, time.time(), limit))
            return [(key.decode(), value) for key, value in rows]

    def close(self) -> None:
        self._database.close()

    def _sweep(self, connection: sqlite3.Connection, now: float) -> None:
        """Removes expired rows now and then, within a write that syncs anyway."""
        if time.monotonic() < self._next_sweep:
            return
        swept = connection.execute(_SWEEP, (now, SWEEP_ROWS)).rowcount
        if swept < SWEEP_ROWS:
            self._next_sweep = time.monotonic() + SWEEP_SECONDS


def _checked(key: str, value: str | None, expires_in: float | None) -> bytes:
    if value is not None:
        limits.utf8(value, "the value")
    if expires_in is not None:
        limits.expiry(expires_in)
    return limits.table_key(key)


def _live_value(connection: sqlite3.Connection, key: bytes, now: float) -> str | None:
    row = connection.execute(f"SELECT value FROM entries WHERE key = ? AND {_LIVE}", (key, now)).fetchone()
    return None if row is None else str(row[0])


def _upsert(connection: sqlite3.Connection, key: bytes, value: str, now: float, expires_in: float | None) -> None:
    connection.execute(_UPSERT, (key, value, None if expires_in is None else now + expires_in))


def _range(prefix: str, after: str | None) -> tuple[str, str, list[bytes]]:
    """The conditions for keys with the prefix above the marker, and their parameters."""
    first = limits.utf8(prefix, "the prefix")
    marker = None if after is None else limits.utf8(after, "the marker")
    below, bound = ("AND key < ?", [limits.prefix_end(first)]) if first else ("", [])
    if marker is not None and marker >= first:
        return "key > ?", below, [marker, *bound]
    return "key >= ?", below, [first, *bound]
