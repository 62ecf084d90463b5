"""System calls that are over at once, made without letting go of the interpreter.

Python's own functions let other threads run during every system call. In a gateway that is busy, the thread that writes
the log then waits up to five milliseconds for the interpreter, for each of the calls that take a microsecond.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from typing import NoReturn

# `futex` lets threads of all processes that mapped a page wait for a number in it. Python has no function for it; the
# call has one number on x86 and another wherever Linux came later.
_FUTEX = 202 if os.uname().machine == "x86_64" else 98
_WAIT, _WAKE = 0, 1
_EVERYBODY = 0x7FFFFFFF
# What is written beyond this takes longer than letting go.
_MOST_BYTES = 64 * 1024

_held = ctypes.PyDLL(None, use_errno=True)
_let_go = ctypes.CDLL(None, use_errno=True)
_held.pwrite64.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64)
_held.pwrite64.restype = ctypes.c_ssize_t


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _raise() -> NoReturn:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def try_lock(fd: int) -> bool:
    """Takes the file's lock (`flock`) unless somebody has it."""
    if _held.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB) == 0:
        return True
    if ctypes.get_errno() != errno.EWOULDBLOCK:
        _raise()
    return False


def unlock(fd: int) -> None:
    if _held.flock(fd, fcntl.LOCK_UN) != 0:
        _raise()


def write(fd: int, data: bytes, at: int) -> int:
    """Writes to the kernel's memory, at that place of a file; returns how many bytes it took."""
    if len(data) > _MOST_BYTES:
        return os.pwrite(fd, data, at)
    written: int = _held.pwrite64(fd, data, len(data), at)
    if written < 0:
        _raise()
    return written


def wake(address: int) -> None:
    """Wakes all who wait for the 32-bit number at that address of shared memory."""
    _held.syscall(_FUTEX, ctypes.c_void_p(address), _WAKE, _EVERYBODY, None, None, 0)


def wait(address: int, seen: int, seconds: float) -> None:
    """Returns when it was woken, when the number is not the one that was seen, when the time is over, or sooner. Other
    threads run meanwhile."""
    patience = _Timespec(int(seconds), int(seconds % 1 * 1e9))
    number = ctypes.c_uint32(seen & 0xFFFFFFFF)
    _let_go.syscall(_FUTEX, ctypes.c_void_p(address), _WAIT, number, ctypes.byref(patience), None, 0)
