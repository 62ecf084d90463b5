from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidegate import processes

PARENT = """
import os, sys, time
from tidegate.processes import Child
child = Child("sleeper", "timeit", ["-n", "1", "-r", "1", "import time; time.sleep(600)"], [])
child.start(dict(os.environ))
print(child.pid, flush=True)
time.sleep(600)
"""

SUBREAPER = """
import os, subprocess, sys, time
from tidegate import processes
processes.adopt_orphans()
middle = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!"], stdout=subprocess.PIPE)
orphan = int(middle.stdout.readline())
middle.wait()
print(orphan in processes.children_of(os.getpid()))
os.kill(orphan, 9)
"""


def gone(pid: int) -> bool:
    """Whether the process ended; a zombie that nobody reaps yet has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def wait_gone(pid: int) -> bool:
    deadline = time.monotonic() + 90
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return gone(pid)


def test_a_child_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert not gone(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_gone(child)


def test_orphans_come_to_whoever_adopts_them() -> None:
    done = subprocess.run([sys.executable, "-c", SUBREAPER], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_the_pause_before_a_restart_grows_while_a_child_dies_young(caplog: pytest.LogCaptureFixture) -> None:
    child = processes.Child("worker", "no_such_module_of_ours", [], [])
    pauses = []
    for _ in range(4):
        child.start(dict(os.environ))
        assert child.pid is not None
        _, status = os.waitpid(child.pid, 0)
        before = time.monotonic()
        child.ended(status)
        pauses.append(child.restart_at - before)
        assert child.pid is None
    assert pauses[0] < pauses[1] < pauses[2] < pauses[3]
    assert child.early_deaths == 4
    assert "worker" in caplog.text
    assert "exit code 1" in caplog.text


def test_exits_are_described_for_people() -> None:
    assert processes.describe_exit(-signal.SIGKILL) == "signal SIGKILL"
    assert processes.describe_exit(3) == "exit code 3"


def test_signalling_a_process_that_has_gone_is_harmless() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    processes.send(done.pid, signal.SIGTERM)


def test_only_managers_of_the_same_data_directory_are_found(tmp_path: Path) -> None:
    def pretend(data: Path) -> subprocess.Popen[bytes]:
        words = ["-c", "import time; time.sleep(600)", "tidegate.pools.manager", "--data", str(data), "--pool", "a"]
        return subprocess.Popen([sys.executable, *words])

    mine, other = pretend(tmp_path / "a"), pretend(tmp_path / "ab")
    try:
        deadline = time.monotonic() + 90
        while processes.pool_managers(tmp_path / "a") != [mine.pid] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes.pool_managers(tmp_path / "a") == [mine.pid]
    finally:
        for process in (mine, other):
            process.kill()
            process.wait()


def test_a_child_that_cannot_be_started_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    child = processes.Child("sleeper", "timeit", ["x" * (1 << 20)], [])  # longer than any argument may be
    for deaths in (1, 2):
        child.start(dict(os.environ))
        assert (child.pid, child.early_deaths) == (None, deaths)
    assert child.restart_at > time.monotonic()
    assert "sleeper cannot be started: [Errno 7] Argument list too long" in caplog.text
