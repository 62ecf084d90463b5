"""Disk space: reserving it for files, and measuring what is left.

Whoever writes to a mapped page for which the disk has no room is killed (SIGBUS). So the space of a mapped file is
reserved before it is mapped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from tidegate.core.errors import Full, Unavailable

_BLOCK_BYTES = 512  # the unit of `st_blocks`, whatever the file system's own is


def reserve(fd: int, size: int, name: Path) -> None:
    """Makes the file at least `size` bytes long and reserves disk space for each of them."""
    found = os.fstat(fd)
    if found.st_size >= size and found.st_blocks * _BLOCK_BYTES >= size:
        return
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        kind = Full if error.errno in (errno.ENOSPC, errno.EDQUOT) else Unavailable
        raise kind(f"{name} cannot get its {size} bytes: {error.strerror}") from None


def free_bytes(path: Path | str) -> int | None:
    """What ordinary users may still write on the file system of the path; None where that cannot be told."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def shortage(places: Iterable[Path], reserve_bytes: int) -> str:
    """Names the directory that has less than the reserve left; empty if none has."""
    for place in places:
        free = free_bytes(place)
        if free is not None and free < reserve_bytes:
            return f"there are {free >> 20} MiB left at {place}, and {reserve_bytes >> 20} are to stay free"
    return ""
