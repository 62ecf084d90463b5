"""Numbers that processes share: seen at once, locked against each other, and waited for."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tidegate import brief_calls
from tidegate.core.errors import Unavailable
from tidegate.shared_numbers import SharedNumbers

COUNTING = """
import sys
from pathlib import Path
from tidegate.shared_numbers import SharedNumbers

numbers = SharedNumbers(Path(sys.argv[1]), 4)
for _ in range(2000):
    numbers.lock(60)
    numbers[2] = numbers[2] + 1
    numbers.unlock()
"""

HOLDING = """
import sys, time
from pathlib import Path
from tidegate.shared_numbers import SharedNumbers

numbers = SharedNumbers(Path(sys.argv[1]), 4)
numbers.lock(60)
numbers[0] = 1
numbers.wake(0)
time.sleep(600)
"""


def test_a_number_set_by_one_is_seen_by_another(tmp_path: Path) -> None:
    one, other = SharedNumbers(tmp_path / "n", 4), SharedNumbers(tmp_path / "n", 4)
    assert [other[index] for index in range(4)] == [0, 0, 0, 0]
    one[3] = 2**63 + 1
    assert other[3] == 2**63 + 1
    one.flush()
    assert int.from_bytes((tmp_path / "n").read_bytes()[24:32], sys.byteorder) == 2**63 + 1


def test_processes_that_lock_lose_no_count(tmp_path: Path) -> None:
    numbers = SharedNumbers(tmp_path / "n", 4)
    started = [subprocess.Popen([sys.executable, "-c", COUNTING, str(tmp_path / "n")]) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert numbers[2] == 6000


def test_waiting_ends_when_another_process_changes_the_number_and_its_lock_dies_with_it(tmp_path: Path) -> None:
    numbers = SharedNumbers(tmp_path / "n", 4)
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path / "n")]) as process:
        while numbers[0] == 0:
            numbers.wait(0, 0, 600)
        assert not numbers.try_lock()
        with pytest.raises(Unavailable, match="hangs"):
            numbers.lock(0.05)
        process.send_signal(signal.SIGKILL)
    numbers.lock(60)
    numbers.unlock()


def test_waiting_for_a_number_that_has_changed_already_returns_at_once(tmp_path: Path) -> None:
    numbers = SharedNumbers(tmp_path / "n", 1)
    numbers[0] = 5
    numbers.wait(0, 4, 600)


def test_waiting_is_over_when_the_time_is_and_lets_other_threads_run(tmp_path: Path) -> None:
    numbers = SharedNumbers(tmp_path / "n", 1)
    began = time.monotonic()
    numbers.wait(0, 0, 0.05)
    assert time.monotonic() - began >= 0.05
    waiting = threading.Thread(target=numbers.wait, args=(0, 0, 600))
    waiting.start()
    while waiting.is_alive():  # it may not be asleep yet
        numbers[0] += 1
        numbers.wake(0)
        waiting.join(0.01)


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_writing_says_how_much_it_wrote_and_why_it_did_not(tmp_path: Path, size: int) -> None:
    fd = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    assert brief_calls.write(fd, b"\0\xff" * (size // 2), 3) == size
    assert os.pread(fd, size + 9, 0) == bytes(3) + b"\0\xff" * (size // 2)
    os.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        brief_calls.write(fd, b"x" * size, 0)
    assert raised.value.errno == errno.EBADF
    with pytest.raises(OSError, match="Bad file descriptor"):
        brief_calls.try_lock(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        brief_calls.unlock(fd)
