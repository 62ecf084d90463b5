"""Files that are mapped have their space before the disk is full."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from full_disk import needs_small_disk, run_on_small_disk

from tidegate.core.errors import Unavailable
from tidegate.space import free_bytes, reserve

MAPPED = """
from tidegate.gateway.changes.key_locks import LOCKS, KeyLocks
from tidegate.pools.changes import ChangeCounter

order, changes = KeyLocks(disk / "order"), ChangeCounter(disk)
fill()
for number in range(0, LOCKS, 64):
    order.next_time(number, 5)
changes.bump()
print(order.next_time(64, 5), changes.value)
"""

TOO_LATE = """
from tidegate.core.errors import Unavailable
from tidegate.gateway.changes.key_locks import KeyLocks

fill()
try:
    KeyLocks(disk / "order")
except Unavailable as error:
    print(error)
"""


@needs_small_disk
def test_times_and_changes_are_kept_on_a_full_disk(tmp_path: Path) -> None:
    done = run_on_small_disk(MAPPED, tmp_path / "disk", size="16m")
    assert (done.returncode, done.stdout) == (0, "6 1\n"), done.stderr


@needs_small_disk
def test_a_file_that_gets_no_space_is_not_mapped(tmp_path: Path) -> None:
    done = run_on_small_disk(TOO_LATE, tmp_path / "disk", size="4m")
    assert "cannot get its 8388608 bytes: No space left on device" in done.stdout, done.stderr


def test_a_sparse_file_is_filled_up_and_keeps_its_contents(tmp_path: Path) -> None:
    file = tmp_path / "sparse"
    fd = os.open(file, os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(fd, 1 << 20)
        os.pwrite(fd, b"kept", 4096)
        reserve(fd, 1 << 20, file)
        assert os.fstat(fd).st_blocks * 512 >= 1 << 20
        assert os.pread(fd, 4, 4096) == b"kept"
    finally:
        os.close(fd)


def test_space_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(Unavailable, match="cannot get its"):
            reserve(fd, 1 << 40, tmp_path)
    finally:
        os.close(fd)


def test_free_space_is_that_of_the_file_system(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    free = free_bytes(tmp_path)
    assert free is not None
    assert abs(free - found.f_bavail * found.f_frsize) < 1 << 30
    assert free_bytes(tmp_path / "nothing") is None
