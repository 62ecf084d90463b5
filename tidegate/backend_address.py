"""The address of a backend's S3 door: HOST:PORT, or the absolute path of a Unix socket."""

from __future__ import annotations

import errno
import os
import socket
import struct

_PEER = struct.Struct("3i")  # pid, uid, gid


def is_socket(address: str) -> bool:
    return address.startswith("/")


def host_header(address: str) -> bytes:
    """What a request to the address has as its Host."""
    return b"localhost" if is_socket(address) else address.encode()


def open_socket(path: str) -> socket.socket:
    """A connected socket that does not block. Raises `BlockingIOError` while too many others wait to be accepted, and
    `OSError` when nobody listens there.

    The directory is opened first, because the path of a socket must not be longer than 107 bytes. It belongs to the
    pool's owner, who could put a link to somebody else's socket there: only the owner's own process is spoken to.
    """
    directory, name = os.path.split(path)
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            opened.connect(f"/proc/self/fd/{fd}/{name}")
            _, uid, _ = _PEER.unpack(opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if uid != os.fstat(fd).st_uid:
                raise PermissionError(errno.EPERM, "a process of another user listens there", path)
        except BaseException:
            opened.close()
            raise
        return opened
    finally:
        os.close(fd)
