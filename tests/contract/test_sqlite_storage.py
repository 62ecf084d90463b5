"""What the SQLite adapters leave in their files, and what they say when the disk or the lock fails them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from full_disk import needs_small_disk, run_on_small_disk
from sqlite_rows import rows

from tidegate.adapters.sqlite import Database
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Unavailable

SCHEMA = "CREATE TABLE t (x);"


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


def test_a_file_that_somebody_has_for_itself_is_waited_for_when_it_is_opened(tmp_path: Path) -> None:
    """As the last of its users does for a moment, when it ends."""
    path = tmp_path / "d.db"
    Database(path, SCHEMA).close()
    alone = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    alone.execute("PRAGMA locking_mode=EXCLUSIVE")
    alone.execute("BEGIN EXCLUSIVE")
    alone.execute("INSERT INTO t VALUES (1)")
    alone.execute("COMMIT")
    ends = threading.Timer(0.5, alone.close)
    ends.start()
    database = Database(path, SCHEMA)
    ends.join()
    with database.read() as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]
    database.close()


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


def test_write_lock_is_waited_for_within_the_process_too(tmp_path: Path) -> None:
    database = Database(tmp_path / "d.db", SCHEMA, busy_seconds=0.1)
    with database.write(), pytest.raises(Unavailable, match="locked"), database.write():
        pass
    database.close()


ON_A_FULL_DISK = """
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Full

tables = SqliteTables(disk / "tables.db")
tables.put("a", "before")
fill()

def refused():
    for _ in range(3000):  # what the file has got beforehand is used up first
        try:
            tables.put("b", "x" * 5000)
        except Full:
            return True
    return False

print(refused(), tables.get("a"))
free()
tables.put("b", "after")
print(tables.get("b"))
"""


@needs_small_disk
def test_a_full_disk_refuses_to_write_goes_on_reading_and_takes_up_again(tmp_path: Path) -> None:
    done = run_on_small_disk(ON_A_FULL_DISK, tmp_path / "disk", size="8m")
    assert done.stdout.splitlines() == ["True before", "after"], done.stderr
