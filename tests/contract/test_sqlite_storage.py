"""What the SQLite adapters leave in their files, and what they say when the disk or the lock fails them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from full_disk import needs_small_disk, run_on_small_disk

from tidegate.adapters import sqlite_groups
from tidegate.adapters.sqlite import Database
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.adapters.sqlite_topics import SqliteTopics
from tidegate.core.errors import Unavailable
from tidegate.ports import Record

SCHEMA = "CREATE TABLE t (x);"


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_every_commit_is_synced_in_write_ahead_mode(tmp_path: Path) -> None:
    database = Database(tmp_path / "d.db", SCHEMA)
    with database.write() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    database.close()


def test_files_are_for_the_service_alone(tmp_path: Path) -> None:
    tables = SqliteTables(tmp_path / "tables.db")
    tables.put("k", "v")
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {
        "tables.db": 0o600,
        "tables.db-wal": 0o600,
        "tables.db-shm": 0o600,
    }
    tables.close()


def test_a_file_opened_twice_by_a_process_loses_nothing_when_another_process_closes_it(tmp_path: Path) -> None:
    """Were the process's locks lost when it opens the file again, the other would take its write-ahead log away."""
    path = tmp_path / "d.db"
    first = Database(path, SCHEMA)
    with first.write() as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    second = Database(path, SCHEMA)
    other = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute('SELECT * FROM t').fetchall(); c.close()"
    subprocess.run([sys.executable, "-c", other], check=True)
    with first.write() as connection:
        connection.execute("INSERT INTO t VALUES (2)")
    assert rows(path, "SELECT x FROM t") == [(1,), (2,)]
    first.close()
    second.close()
    assert rows(path, "SELECT x FROM t") == [(1,), (2,)]


def test_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "d.db", SCHEMA)
    with pytest.raises(ValueError, match="stop"), database.write() as connection:
        connection.execute("INSERT INTO t VALUES (1)")
        raise ValueError("stop")
    with database.write() as connection:
        connection.execute("INSERT INTO t VALUES (2)")
    database.close()
    assert rows(tmp_path / "d.db", "SELECT x FROM t") == [(2,)]


def test_lock_held_elsewhere_makes_it_unavailable_and_says_so(tmp_path: Path) -> None:
    database = Database(tmp_path / "d.db", SCHEMA, busy_seconds=0.2)
    other = sqlite3.connect(tmp_path / "d.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"), database.write():
        pass
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
    other.execute("ROLLBACK")
    other.close()
    with database.write() as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    database.close()


def test_full_disk_makes_appending_unavailable_and_stores_no_part_of_the_batch(tmp_path: Path) -> None:
    topics = SqliteTopics(tmp_path / "topics.db")
    topics.create("t", 2)
    topics.append("t", [Record("k", b"before")])
    with topics._database.write() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    topics._database._writer.execute(f"PRAGMA max_page_count={pages + 5}")
    with pytest.raises(Unavailable, match="disk is full"):
        topics.append("t", [Record(f"k{number}", b"x" * 1000) for number in range(200)])
    topics._database._writer.execute("PRAGMA max_page_count=1000000")
    topics.append("t", [Record("k", b"after")])
    found = [message.value for partition in (0, 1) for message in topics.read("t", partition, 0, 1000)]
    assert found == [b"before", b"after"]
    topics.close()


def test_file_that_cannot_be_used_is_unavailable_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be opened"):
        SqliteTables(tmp_path / "missing" / "tables.db")
    (tmp_path / "text.db").write_text("certainly no database " * 100)
    with pytest.raises(Unavailable, match="not a database"):
        SqliteTables(tmp_path / "text.db")


def test_closed_database_says_so(tmp_path: Path) -> None:
    tables = SqliteTables(tmp_path / "tables.db")
    tables.close()
    with pytest.raises(Unavailable, match="closed"):
        tables.get("k")
    with pytest.raises(Unavailable, match="closed"):
        tables.put("k", "v")


def test_expired_rows_are_swept_by_a_later_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.adapters.sqlite_tables.SWEEP_SECONDS", 0.0)
    path = tmp_path / "tables.db"
    tables = SqliteTables(path)
    for number in range(5):
        tables.put(f"gone{number}", "v", expires_in=60)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE entries SET expires_at = 1")
    connection.commit()
    connection.close()
    assert rows(path, "SELECT count(*) FROM entries") == [(5,)]
    tables.put("stays", "v")
    tables.close()
    assert rows(path, "SELECT CAST(key AS TEXT) FROM entries") == [("stays",)]


def test_trim_frees_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.adapters.sqlite_topics.TRIM_ROWS", 10)
    path = tmp_path / "topics.db"
    topics = SqliteTopics(path)
    topics.create("t", 1)
    topics.create("u", 1)
    topics.append("t", [Record("k", b"v")] * 95)
    topics.append("u", [Record("k", b"v")] * 7)
    topics.trim("t", 0, 42)
    topics.close()
    assert rows(path, "SELECT count(*) FROM messages") == [(95 - 42 + 7,)]


def test_finished_group_leaves_no_rows_behind(tmp_path: Path) -> None:
    path = tmp_path / "topics.db"
    topics = SqliteTopics(path)
    topics.create("t", 2)
    topics.append("t", [Record(f"k{number}", b"v") for number in range(20)])
    consumer = topics.consumer("t", "g")
    messages = consumer.poll(20)
    consumer.retry_later(messages[0], not_before=0)
    consumer.acknowledge(messages[:0:-1])
    consumer.acknowledge(consumer.poll(20))
    consumer.close()
    topics.close()
    for table in ("done", "retries", "members"):
        assert rows(path, f"SELECT count(*) FROM {table}") == [(0,)]
    assert rows(path, "SELECT sum(committed), count(owner) FROM progress") == [(20, 0)]


@pytest.mark.parametrize(("renewed_at", "alive"), [(1000.0, True), (990.0, False), (990.1, True), (1000.1, False)])
def test_lease_counts_from_its_renewal_and_one_from_the_future_is_dead(
    tmp_path: Path, renewed_at: float, alive: bool
) -> None:
    topics = SqliteTopics(tmp_path / "topics.db")
    topics.create("t", 1)
    with topics._database.write() as connection:
        group = sqlite_groups.create(connection, topics._find("t"), "g")
        member = sqlite_groups.join(connection, group, now=renewed_at, lease=10.0)
        sqlite_groups.claim(connection, group, member, group.topic.partition_ids[0])
        sqlite_groups.put_out_silent(connection, group, now=1000.0)
        assert bool(sqlite_groups.owned(connection, group, member)) == alive
        assert sqlite_groups.renew(connection, member, now=1000.0) == alive
        assert sqlite_groups.join(connection, group, now=1000.0, lease=10.0) != member
    topics.close()


def test_partitions_are_shared_out_evenly(tmp_path: Path) -> None:
    topics = SqliteTopics(tmp_path / "topics.db")
    topics.create("t", 7)
    with topics._database.write() as connection:
        group = sqlite_groups.create(connection, topics._find("t"), "g")
        members = [sqlite_groups.join(connection, group, 0.0, 10.0) for _ in range(3)]
        shares = [sqlite_groups.fair_share(connection, group, member) for member in members]
    assert sorted(map(len, shares)) == [2, 2, 3]
    assert set().union(*shares) == set(group.topic.partition_ids)
    topics.close()


def test_write_lock_is_waited_for_within_the_process_too(tmp_path: Path) -> None:
    database = Database(tmp_path / "d.db", SCHEMA, busy_seconds=0.1)
    with database.write(), pytest.raises(Unavailable, match="locked"), database.write():
        pass
    database.close()


ON_A_FULL_DISK = """
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.adapters.sqlite_topics import SqliteTopics
from tidegate.core.errors import Full
from tidegate.ports import Record

tables, topics = SqliteTables(disk / "tables.db"), SqliteTopics(disk / "topics.db")
topics.create("t", 1)
topics.append("t", [Record("k", b"before")])
tables.put("a", "before")
fill()

def refused(call):
    for _ in range(3000):  # what the files have got beforehand is used up first
        try:
            call()
        except Full:
            return True
    return False

print(refused(lambda: tables.put("b", "x" * 5000)), refused(lambda: topics.append("t", [Record("k", bytes(5000))])))
print(refused(lambda: topics.probe("t")), tables.get("a"), topics.read("t", 0, 0, 1)[0].value)
free()
topics.probe("t")
tables.put("b", "after")
print(tables.get("b"))
"""


@needs_small_disk
def test_a_full_disk_refuses_to_write_goes_on_reading_and_takes_up_again(tmp_path: Path) -> None:
    done = run_on_small_disk(ON_A_FULL_DISK, tmp_path / "disk", size="8m")
    assert done.stdout.splitlines() == ["True True", "True before b'before'", "after"], done.stderr
