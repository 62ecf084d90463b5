"""`python user_namespace.py [--small SIZE PLACE] [--without-networks] COMMAND…`: a command in namespaces of its own.

With `--small` a file system of that size is mounted there, for this command alone; with `--without-networks` no network
namespace can be made, as on a system that has none. Inside, users have the numbers that they have outside: root stays
root and can become others, an ordinary user stays one.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_MOST_USERS = 65536

_libc = ctypes.CDLL(None, use_errno=True)


def prefix(*options: str) -> list[str]:
    """What to put before a command."""
    return [sys.executable, __file__, *options, "--"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", nargs=2, metavar=("SIZE", "PLACE"))
    parser.add_argument("--without-networks", action="store_true")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    enter()
    if options.small:
        size, place = options.small
        mount(None, "/", None, _MS_REC | _MS_PRIVATE, "")
        mount("tmpfs", place, "tmpfs", 0, f"size={size}")
    if options.without_networks:
        Path("/proc/sys/user/max_net_namespaces").write_text("0")
    os.execvp(options.command[0], options.command)


def enter() -> None:
    """Root has all users mapped, by a helper that stays outside; others can map only themselves."""
    uid, gid, me = os.geteuid(), os.getegid(), os.getpid()
    reading, writing = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(writing)
        os.read(reading, 1)
        if uid == 0:
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{me}/{name}").write_text(f"0 0 {_MOST_USERS}")
        os._exit(0)
    check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
    os.write(writing, b".")
    _, status = os.waitpid(helper, 0)
    assert status == 0
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    os.close(reading)
    os.close(writing)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str) -> None:
    encoded = [text.encode() if text is not None else None for text in (source, target, kind)]
    check(_libc.mount(*encoded, ctypes.c_ulong(flags), data.encode()))


def check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
