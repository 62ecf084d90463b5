"""One SQLite file shared by many processes and threads.

Write-ahead logging lets readers go on while one process writes. `synchronous=FULL` syncs the log
at each commit: what was committed survives a power cut. Reads borrow a connection from a pool;
writes go through one connection per process, in a transaction that takes the write lock at once.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidegate.core.errors import Full, Unavailable
from tidegate.space import free_bytes

BUSY_SECONDS = 15.0
_SYNCED_COMMITS = "PRAGMA synchronous=FULL"
# A checkpoint costs two syncs; with 4 MiB between two of them appending is hardly slowed.
_CHECKPOINT_PAGES = "PRAGMA wal_autocheckpoint=1000"
_LOG_SIZE_LIMIT = "PRAGMA journal_size_limit=67108864"

_NO_SPACE_BYTES = 1 << 20

_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_BUSY: f"another process has kept it locked for {BUSY_SECONDS:.0f} s; look for a process that hangs",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that the directory exists and may be written",
    sqlite3.SQLITE_READONLY: "it may not be written; check its owner and permissions",
    sqlite3.SQLITE_IOERR: "reading or writing failed; check the disk and its free space",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore it from a copy",
    sqlite3.SQLITE_NOTADB: "it is not a database; move the file away",
}


class Database:
    """The file at `path`, with `schema` applied at first use. Safe for threads, not across fork."""

    def __init__(self, path: Path, schema: str, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._write_lock = threading.Lock()
        with self._translated():
            self._writer = self._prepare(schema)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own for reading. Each statement sees the newest committed state."""
        with self._translated():
            connection = self._borrow()
            try:
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """As `read`, with all statements seeing the same state."""
        with self.read() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other process's can interleave with; on stable storage when it ends."""
        with self._translated(), self._sole_writer() as connection:
            _begin(connection, self._busy_seconds)
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        with self._write_lock:
            self._closed = True
            self._writer.close()
            while self._idle:
                self._idle.pop().close()

    @contextmanager
    def _sole_writer(self) -> Iterator[sqlite3.Connection]:
        if not self._write_lock.acquire(timeout=self._busy_seconds):
            raise Unavailable(f"{self._path}: {_ADVICE[sqlite3.SQLITE_BUSY]}")
        try:
            self._refuse_if_closed()
            yield self._writer
        finally:
            self._write_lock.release()

    def _borrow(self) -> sqlite3.Connection:
        self._refuse_if_closed()
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect(self._busy_seconds)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        self._idle.append(connection)
        if self._closed:  # checked after adding, so that whoever comes second closes it
            while self._idle:
                self._idle.pop().close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Unavailable(f"{self._path} has been closed")

    def _connect(self, busy_seconds: float) -> sqlite3.Connection:
        connection = self._opened(busy_seconds)
        connection.execute(_SYNCED_COMMITS)
        return connection

    def _opened(self, busy_seconds: float) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)

    def _prepare(self, schema: str) -> sqlite3.Connection:
        """The connection that writes. It never waits inside SQLite: `_begin` does, in shorter steps."""
        with suppress(OSError):  # it is there already, or SQLite says better what is wrong
            # The files beside it (-wal, -shm) inherit the mode: the records are nobody else's business. A file that is
            # there must not be opened: closing it would free the locks of this process's other connections to it, and
            # another process could then take the write-ahead log away from under them.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = self._opened(0)
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                connection.execute(_SYNCED_COMMITS)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute(_CHECKPOINT_PAGES)
                connection.execute(_LOG_SIZE_LIMIT)
                if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                    connection.executescript(f"BEGIN IMMEDIATE;\n{schema}\nPRAGMA user_version=1;\nCOMMIT;")
                return connection
            except sqlite3.OperationalError as error:
                # Several processes may open a new file at once; switching to WAL needs it for itself, and so does who
                # was the last to use it, for a moment.
                if not _is_busy(error) or time.monotonic() > deadline:
                    connection.close()
                    raise
                _pause()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._unavailable(error) from error
        except sqlite3.DatabaseError as error:
            # Other subclasses tell of mistakes in this package; they pass as they are.
            if type(error) is sqlite3.DatabaseError:
                raise self._unavailable(error) from error
            raise

    def _unavailable(self, error: sqlite3.Error) -> Unavailable:
        code = _primary_code(error)
        advice = _ADVICE.get(code)
        # A file that can be written without growing does not notice what the files beside it lack.
        is_full = code == sqlite3.SQLITE_IOERR and (free_bytes(self._path) or _NO_SPACE_BYTES) < _NO_SPACE_BYTES
        kind = Full if code == sqlite3.SQLITE_FULL or is_full else Unavailable
        return kind(f"{self._path}: {advice} ({error})" if advice else f"{self._path}: {error}")


def _begin(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Takes the write lock. SQLite's own waiting backs off to 100 ms, far longer than a commit takes."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            _pause()


def _pause() -> None:
    time.sleep(random.uniform(0.0005, 0.004))


def _is_busy(error: sqlite3.Error) -> bool:
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _primary_code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)  # absent on errors that Python itself raises
    return code & 0xFF
