"""Run as a program, `python -I -S confined_exec.py SPECIFICATION`: becomes a backend, confined to what it needs.

It is the first thing that runs in a backend's process. It starts with the manager's identity, since the pool's owner
need not be able to read the Python installation, and imports nothing after it has become the owner. Then it enters a
user, network and mount namespace of its own, gives up every capability and executes the server.

What fails is written to the descriptor `report`, as one line of JSON; that the descriptor is closed without a line
means that the server was executed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any, NoReturn

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 4, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_LARGEST_CAPABILITY = 63
_TEMPORARY = "/tmp"

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """The server is not executed. A definite refusal would repeat itself until somebody acts."""

    def __init__(self, why: str, *, definite: bool = True) -> None:
        super().__init__(why)
        self.definite = definite


def main(specification: dict[str, Any]) -> NoReturn:
    report = int(specification["report"])
    os.set_inheritable(report, False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the manager's mask is not the backend's
    os.umask(0o077)
    try:
        run(specification)
    except Refused as refusal:
        answer = {"why": str(refusal), "definite": refusal.definite}
    except OSError as error:
        answer = {"why": f"{error.filename or 'the process'}: {error.strerror}", "definite": False}
    else:
        os._exit(0)  # a trial without a server
    os.write(report, json.dumps(answer).encode() + b"\n")
    os._exit(1)


def run(specification: dict[str, Any]) -> None:
    """Returns only if there is no server to be executed."""
    program = specification.get("program")
    # Opened here: neither the way to it nor the file itself needs to be open to the owner beyond executing it.
    binary = os.open(program, os.O_PATH | os.O_CLOEXEC) if program else -1
    if specification["account"] is not None:
        become(**specification["account"])
    directory = specification["directory"]
    enter(directory, specification["user"])
    if specification["namespaces"]:
        enter_namespaces(directory)
    prepare(specification["fresh"], specification["kept"], specification["files"])
    give_up_privileges()
    # Last, because every change of identity clears it.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != specification["parent"]:
        raise Refused("the manager has ended", definite=False)
    if program:
        try:
            os.execve(binary, [program, *specification["arguments"]], os.environ)
        except OSError as error:
            raise Refused(f"{specification['user']} cannot use {program}: {error.strerror}") from None


def become(uid: int, gid: int, groups: list[int]) -> None:
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    clear_capabilities()
    # The kernel closes /proc/self to a process that changed its user. Nothing in this one is secret from the owner.
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "PR_SET_DUMPABLE")


def enter(directory: str, user: str) -> None:
    try:
        os.chdir(directory)
    except PermissionError:
        raise Refused(f"{user} may not pass through {directory} or the directories above it") from None
    except OSError as error:
        raise Refused(f"{user} cannot use {directory}: {error.strerror}") from None


def enter_namespaces(directory: str) -> None:
    uid, gid = os.geteuid(), os.getegid()
    try:
        _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWNS), "unshare")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
        _raise_loopback()
        _cover_temporary(directory)
    except OSError as error:
        raise Refused(
            f"this system gives no namespaces ({error.filename or error.strerror}: {error.strerror})"
        ) from None


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _cover_temporary(directory: str) -> None:
    """A /tmp of its own, where servers put sockets that are named by their ports, and so are the same for all pools.
    The pool's directory is put back if it was covered, and where its owner cannot reach it from the root."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", _TEMPORARY, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0700,size=1m")
    covered = os.path.commonpath([directory, _TEMPORARY]) == _TEMPORARY
    if covered or not os.access(directory, os.X_OK):
        place = directory if covered else f"{_TEMPORARY}/pool"
        Path(place).mkdir(mode=0o700, parents=True)
        _mount(f"/proc/self/fd/{here}", place, None, _MS_BIND)
        os.chdir(place)
    os.close(here)


def prepare(fresh: list[str], kept: list[str], files: dict[str, str]) -> None:
    """The directories and small files that a server expects to find in the pool's directory."""
    for name in fresh:
        if os.path.lexists(name):
            shutil.rmtree(name)
    for name in (*fresh, *kept):
        Path(name).mkdir(mode=0o700, exist_ok=True)
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")


def give_up_privileges() -> None:
    """For good: no program that is executed from here on gets any capability or another identity."""
    for capability in range(_LARGEST_CAPABILITY + 1):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # the kernel knows no more; outside of namespaces it may not be this process's to drop
    clear_capabilities()
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")


def clear_capabilities() -> None:
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    encoded = [text.encode() if text is not None else None for text in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), data.encode()), f"mount {target}")


def _write(file: str, text: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno() or errno.EPERM
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
