"""Writes of several threads that share one transaction."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.adapters.group_commit import GroupCommit
from tidegate.adapters.sqlite import Database
from tidegate.core.errors import Full, Unavailable

_WAITERS = 5


class _CountedDatabase(Database):
    """Counts its transactions, and fails the second of them if told how."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "CREATE TABLE t (x);")
        self.transactions = 0
        self.second_fails: Exception | None = None

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        self.transactions += 1
        with super().write() as connection:
            yield connection
            if self.transactions == 2 and self.second_fails is not None:
                raise self.second_fails

    def rows(self) -> list[int]:
        with self.read() as connection:
            return [row[0] for row in connection.execute("SELECT x FROM t ORDER BY x")]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[_CountedDatabase]:
    made = _CountedDatabase(tmp_path / "d.db")
    yield made
    made.close()


def _insert(number: int) -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO t VALUES (?)", (number,))
        return number

    return work


def _while_one_commits(
    commits: GroupCommit, works: list[Callable[[sqlite3.Connection], int]], *, patience: bool = True
) -> list[Future[int]]:
    """Has the writes wait for one that takes its time; gives them when all have ended."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> int:
        begun.set()
        assert go_on.wait(30)
        return -1

    with ThreadPoolExecutor(len(works) + 1) as threads:
        first = threads.submit(commits.write, slow)
        assert begun.wait(30)
        found = [threads.submit(commits.write, work) for work in works]
        while patience and len(commits._waiting) < len(works):
            time.sleep(0.01)
        while not patience and not all(future.done() for future in found):
            time.sleep(0.01)
        go_on.set()
        assert first.result() == -1
    return found


def test_writes_that_wait_for_another_are_committed_together(database: _CountedDatabase) -> None:
    found = _while_one_commits(GroupCommit(database), [_insert(number) for number in range(_WAITERS)])
    assert [future.result() for future in found] == list(range(_WAITERS))
    assert (database.transactions, database.rows()) == (2, list(range(_WAITERS)))


def test_a_write_that_fails_leaves_the_others_of_its_transaction_written(database: _CountedDatabase) -> None:
    def wrong(connection: sqlite3.Connection) -> int:
        raise ValueError("wrong")

    found = _while_one_commits(GroupCommit(database), [_insert(1), wrong, _insert(2)])
    assert isinstance(found[1].exception(), ValueError)
    assert (found[0].result(), found[2].result(), database.rows()) == (1, 2, [1, 2])


def test_writes_are_tried_one_by_one_when_all_of_them_find_no_space(database: _CountedDatabase) -> None:
    database.second_fails = Full("no space")
    found = _while_one_commits(GroupCommit(database), [_insert(1), _insert(2)])
    assert ([future.result() for future in found], database.rows()) == ([1, 2], [1, 2])


def test_a_file_that_cannot_be_written_fails_all_who_wait_at_once(database: _CountedDatabase) -> None:
    database.second_fails = Unavailable("locked")
    found = _while_one_commits(GroupCommit(database), [_insert(1), _insert(2)])
    assert [type(future.exception()) for future in found] == [Unavailable, Unavailable]
    assert (database.transactions, database.rows()) == (2, [])


def test_a_write_that_has_waited_too_long_is_never_made(database: _CountedDatabase) -> None:
    commits = GroupCommit(database, patience_seconds=0.05)
    (found,) = _while_one_commits(commits, [_insert(1)], patience=False)
    assert isinstance(found.exception(), Unavailable)
    assert database.rows() == []
    assert commits.write(_insert(2)) == 2
