"""Asking the starter: for processes of a service that root started, which have no rights of root's themselves."""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from pathlib import Path

from tidegate.core.errors import InvalidInput, Unavailable

SOCKET = "starter.sock"

_LONGEST_LINE = 16384
_DIRECTORY_SECONDS = 30.0


def ask(data: Path, request: dict[str, str], seconds: float) -> bytes | None:
    """The first line of the answer, as far as it came in time; None where no starter listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            _connect(connection, data)
            connection.sendall(json.dumps(request).encode() + b"\n")
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError, PermissionError):
            return None
        except OSError as error:
            raise Unavailable(f"the starter cannot be asked: {error}") from None
        return read_line(connection.fileno(), seconds)


def listens(data: Path) -> bool:
    """Whether there is a starter to ask."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            _connect(connection, data)
        except OSError:
            return False
        return True


def listen(data: Path) -> socket.socket:
    """For the supervisor, who keeps the socket while starters are replaced. Only its user and root may connect."""
    folder = os.open(data / "run", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        (data / "run" / SOCKET).unlink(missing_ok=True)
        listener.bind(_short(folder))
        (data / "run" / SOCKET).chmod(0o600)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise Unavailable(f"{data / 'run' / SOCKET} cannot be made: {error.strerror}") from None
    finally:
        os.close(folder)
    return listener


def ask_for_directory(data: Path, pool: str, directory: str, owner: str, group: str) -> None:
    """Lets the starter make the directory of a pool for an owner that this process is not."""
    request = {"pool": pool, "directory": directory, "owner": owner, "group": group}
    line = ask(data, request, _DIRECTORY_SECONDS)
    try:
        answer = json.loads(line or b"")
    except ValueError:
        raise Unavailable("the starter gave no answer; the log says why") from None
    if answer.get("directory") != directory:
        raise InvalidInput(str(answer.get("error")))


def _connect(connection: socket.socket, data: Path) -> None:
    folder = os.open(data / "run", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(_short(folder))
    finally:
        os.close(folder)


def _short(folder: int) -> str:
    """The socket's address: its path may be longer than an address may be."""
    return f"/proc/self/fd/{folder}/{SOCKET}"


def read_line(fd: int, seconds: float) -> bytes:
    """Up to the first newline, the end of the stream or of the time."""
    os.set_blocking(fd, False)
    collected = b""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while b"\n" not in collected and len(collected) < _LONGEST_LINE:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                break
            try:
                piece = os.read(fd, _LONGEST_LINE)
            except OSError:  # the other side went away
                break
            if not piece:
                break
            collected += piece
    return collected.partition(b"\n")[0]
