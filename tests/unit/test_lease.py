"""A lease is one holder's at a time, and passes on when it is released, expires, or its holder is certainly dead."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Conflict
from tidegate.lease import KeptLease, Lease
from tidegate.ports import Tables

KEY = "lk:test"
HOLDER = """
import sys
from pathlib import Path
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.lease import Lease
assert Lease(SqliteTables(Path(sys.argv[1])), "lk:test", seconds=60).try_acquire()
print("held", flush=True)
input()
"""


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    opened = SqliteTables(tmp_path / "tables.db")
    yield opened
    opened.close()


def test_two_leases_of_one_process_exclude_each_other(tables: Tables) -> None:
    one, other = Lease(tables, KEY, seconds=60), Lease(tables, KEY, seconds=60)
    assert one.try_acquire() and not other.try_acquire()
    other.release()
    assert one.renew() and not other.renew()
    one.release()
    assert other.try_acquire() and not one.renew()


def test_an_entry_whose_setting_was_not_confirmed_is_its_holders(tables: Tables) -> None:
    lease = Lease(tables, KEY, "token", seconds=60)
    tables.put(KEY, "token", expires_in=60)
    assert lease.try_acquire()


def test_it_expires(tables: Tables) -> None:
    assert Lease(tables, KEY, seconds=0.2).try_acquire()
    time.sleep(0.3)
    assert Lease(tables, KEY, seconds=60).try_acquire()


def test_that_of_a_killed_process_is_taken_over_and_that_of_a_living_one_is_not(tables: Tables, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "tables.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        lease = Lease(tables, KEY, seconds=60)
        assert not lease.try_acquire()
        process.kill()
        process.wait()
        assert lease.try_acquire()


def test_a_holder_of_another_machine_and_one_that_says_nothing_of_itself_count_as_alive(tables: Tables) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for holder in (f"elsewhere/{gone.pid}/1/token", "token"):
        tables.put(KEY, holder, expires_in=60)
        assert not Lease(tables, KEY, seconds=60).try_acquire()


def test_a_block_waits_for_its_turn_and_gives_up_in_time(tables: Tables) -> None:
    tables.put(KEY, "another", expires_in=0.3)
    with Lease(tables, KEY, seconds=60).held(patience_seconds=20, refusal="busy"):
        with (
            pytest.raises(Conflict, match="busy"),
            Lease(tables, KEY, seconds=60).held(patience_seconds=0.1, refusal="busy"),
        ):
            pass
        assert tables.get(KEY) is not None
    assert tables.get(KEY) is None


def test_a_kept_lease_outlives_its_expiry_and_knows_when_it_is_lost(tables: Tables) -> None:
    lease = Lease(tables, KEY, seconds=2.0)
    assert lease.try_acquire()
    with KeptLease(lease, seconds=2.0) as kept:
        time.sleep(3.0)
        assert not kept.lost and tables.get(KEY) is not None
        tables.put(KEY, "another", expires_in=60)
        deadline = time.monotonic() + 10
        while not kept.lost:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert tables.get(KEY) == "another"
