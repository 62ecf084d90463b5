from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from full_disk import needs_small_disk, run_on_small_disk

from tidegate.core.records import ManagerEntry
from tidegate.lease import LeaseLost
from tidegate.pools.manager_lease import ManagerLease
from tidegate.ports import Tables


@pytest.fixture
def manager_pid() -> Iterator[int]:
    """A process that looks like a manager of the pool `demo`."""
    command = [sys.executable, "-c", "input()", "tidegate.pools.manager", "--pool", "demo"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def test_one_of_two_gets_it_and_the_other_after_its_release(tables: Tables) -> None:
    first, second = ManagerLease(tables, "demo", seconds=60), ManagerLease(tables, "demo", seconds=60)
    assert first.try_acquire()
    entry = ManagerEntry.from_json(tables.get("ma:demo") or "")
    assert (entry.pid, entry.host) == (os.getpid(), socket.gethostname())
    first.release()
    assert tables.get("ma:demo") is None
    assert second.try_acquire()
    first.release()
    assert second.keep()


def test_that_of_a_living_manager_is_not_taken(tables: Tables, manager_pid: int) -> None:
    entry = ManagerEntry(socket.gethostname(), manager_pid, "token", time.time())
    tables.put("ma:demo", entry.to_json())
    assert not ManagerLease(tables, "demo", seconds=60).try_acquire()


def test_that_of_a_dead_manager_of_this_machine_is_taken_over_and_another_machine_s_is_not(tables: Tables) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    tables.put("ma:demo", ManagerEntry("elsewhere", gone.pid, "token", time.time()).to_json())
    assert not ManagerLease(tables, "demo", seconds=60).try_acquire()
    tables.put("ma:demo", ManagerEntry(socket.gethostname(), gone.pid, "token", time.time()).to_json())
    lease = ManagerLease(tables, "demo", seconds=60)
    assert lease.try_acquire()
    assert lease.keep()


def test_it_is_lost_when_its_entry_is_removed_or_foreign(tables: Tables) -> None:
    lease = ManagerLease(tables, "demo", seconds=60)
    assert lease.try_acquire()
    text = tables.get("ma:demo") or ""
    tables.delete("ma:demo")
    with pytest.raises(LeaseLost):
        lease.keep()
    tables.put("ma:demo", text.replace(lease.token, "another"))
    with pytest.raises(LeaseLost):
        lease.keep()
    lease.release()
    assert tables.get("ma:demo") is not None


def test_it_lives_longer_than_its_expiry_while_it_is_kept_and_expires_when_not(tables: Tables) -> None:
    lease = ManagerLease(tables, "demo", seconds=2.0)
    assert lease.try_acquire()
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        assert lease.keep()
        time.sleep(0.02)
    time.sleep(2.3)
    with pytest.raises(LeaseLost):
        lease.keep()


ON_A_FULL_DISK = """
import time
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Full
from tidegate.lease import LeaseLost
from tidegate.pools.manager_lease import ManagerLease

tables = SqliteTables(disk / "tables.db")

def use_up():
    fill()
    for size in (50_000, 10):
        try:
            while True:
                tables.put("other", "x" * size)
        except Full:
            continue

lease = ManagerLease(tables, "demo", seconds=2)
lease.try_acquire()
use_up()
while lease.keep():
    time.sleep(0.1)
for _ in range(30):
    assert not lease.keep()
    time.sleep(0.1)
assert tables.get("ma:demo") is None  # it has expired, and nobody can take it
free()
assert lease.keep() and tables.get("ma:demo")

use_up()
while lease.keep():
    time.sleep(0.1)
free()
tables.put("ma:demo", "another manager's")
try:
    lease.keep()
except LeaseLost as lost:
    print(lost)
"""


@needs_small_disk
def test_it_is_not_lost_while_the_tables_are_full_unless_another_takes_it_afterwards(tmp_path: Path) -> None:
    done = run_on_small_disk(ON_A_FULL_DISK, tmp_path / "disk", size="8m")
    assert "ma:demo is another's" in done.stdout, done.stderr
