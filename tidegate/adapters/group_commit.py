"""Writes of several threads in one transaction of a SQLite file.

A commit takes as long as the disk's sync, whatever is in it. Threads that come while another one commits wait, and the
next of them commits for all who wait.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from tidegate.adapters.sqlite import BUSY_SECONDS, Database
from tidegate.core.errors import Full, Unavailable

_Result = TypeVar("_Result")


class _Write(Generic[_Result]):
    __slots__ = ("error", "is_settled", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], _Result]) -> None:
        self.work = work
        self.result: _Result | None = None
        self.error: Exception | None = None
        self.is_settled = False

    def settle(self, result: _Result | None, error: Exception | None = None) -> None:
        self.result, self.error, self.is_settled = result, error, True


class GroupCommit:
    """`patience_seconds` is how long a write waits for those before it. May be shared by threads."""

    def __init__(self, database: Database, *, patience_seconds: float = BUSY_SECONDS) -> None:
        self._database = database
        self._patience_seconds = patience_seconds
        self._turn = threading.Lock()
        self._waiting: deque[_Write[object]] = deque()

    def write(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Gives what `work` gives, when that is on stable storage. `work` may be called twice, the first time for
        nothing. Where it changes nothing that others change meanwhile, its order among them is any."""
        write = _Write(work)
        waiting = cast("_Write[object]", write)
        self._waiting.append(waiting)
        if not self._turn.acquire(timeout=self._patience_seconds):
            self._withdraw(waiting)
        try:
            if not write.is_settled:
                self._commit(self._all_who_wait(waiting))
        finally:
            self._turn.release()
        if write.error is not None:
            raise write.error
        return cast("_Result", write.result)

    def _withdraw(self, write: _Write[object]) -> None:
        """Returns only where somebody commits the write this very moment, and then with the turn."""
        try:
            self._waiting.remove(write)
        except ValueError:
            self._turn.acquire()
            return
        raise Unavailable("writes before this one have taken too long; look for a process or a disk that hangs")

    def _all_who_wait(self, own: _Write[object]) -> list[_Write[object]]:
        found: dict[_Write[object], None] = {}
        while self._waiting:
            found[self._waiting.popleft()] = None
        found[own] = None  # it is not among them if whoever took it was interrupted
        return list(found)

    def _commit(self, writes: Sequence[_Write[object]]) -> None:
        try:
            with self._database.write() as connection:
                results = [write.work(connection) for write in writes]
        except Exception as error:
            self._failed(writes, error)
        else:
            for write, result in zip(writes, results, strict=True):
                write.settle(result)

    def _failed(self, writes: Sequence[_Write[object]], error: Exception) -> None:
        """Nothing was written. A file that cannot be used fails for each; otherwise one of them may be to blame, or
        have found no space, which is nothing to the others."""
        if len(writes) == 1:
            writes[0].settle(None, error)
        elif isinstance(error, Unavailable) and not isinstance(error, Full):
            for write in writes:
                write.settle(None, Unavailable(str(error)))
        else:
            for write in writes:
                self._commit([write])
