"""Changes under way: what a gateway was about to do when it was killed, or when a backend failed on it.

Each process keeps a file of its own in `run/intents`, locked for as long as it lives. A line is written before the
last bytes of a change go out. The end of a change is told with the next such line, or by `flush` within a second; so
the healer may look into a few changes that are over, and finds nothing to do. What is left open is looked into by the
healer. A killed process loses nothing that it wrote, so no line waits for the disk. The directory is locked while files
are made, replaced or looked for, so that nobody takes a file for abandoned whose owner is about to lock it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path

from tidegate.core.errors import Unavailable

logger = logging.getLogger(__name__)

_REWRITTEN_BYTES = 1 << 20
_NEW = ".new"
# Goes before a line that follows a broken one: whatever stands there then is no JSON.
_END_OF_BROKEN_LINE = b"?\n"


@dataclass(frozen=True, slots=True)
class Intent:
    """A change that may or may not have been made at the backend. `changes` are pairs of key and version id; `backend`
    is the token of the manager whose backend got the change."""

    started_at: float
    pool: str
    bucket: str
    changes: tuple[tuple[str, str], ...]
    upload_id: str = ""
    backend: str = ""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """What a process that is gone has left open, by number."""

    path: Path
    fd: int
    left: dict[int, Intent]

    def end(self, number: int) -> None:
        """This one is seen to; when it was the last, the file goes."""
        del self.left[number]
        with suppress(OSError):  # a full disk: then it is looked into once more
            os.write(self.fd, b"\n%d\n" % number)
        self.remove_if_done()

    def remove_if_done(self) -> None:
        if not self.left:
            self.path.unlink(missing_ok=True)


class Intents:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self._path = directory / f"{os.getpid()}-{secrets.token_hex(4)}"
        self._open: dict[int, Intent] = {}
        self._count = 0
        self._ended: list[int] = []  # whose end the file does not tell yet
        self._written = self._limit = 0
        self._broken_line = False
        with _locked(directory):
            self._fd = _new_file(self._path)

    def begin(self, intent: Intent) -> int:
        """Notes the change down before it is made; returns the number to `end` it with. Raises `Unavailable`."""
        self._count = number = self._count + 1
        self._write_with_ends(_line(number, intent))
        self._open[number] = intent
        return number

    def probe(self) -> None:
        """Raises `Unavailable` if nothing could be noted down now. An empty line tells nothing."""
        self._write(b"\n")

    def end(self, number: int) -> None:
        """The change is in the log, or was certainly not made."""
        if self._open.pop(number, None) is not None:
            self._ended.append(number)

    def flush(self) -> None:
        """Tells the ends that no other line has told. What the disk does not take is told later."""
        if self._ended:
            with suppress(Unavailable):  # the healer of another process would find nothing to do
                self._write_with_ends(b"")

    def _write_with_ends(self, line: bytes) -> None:
        if self._ended and self._written > max(_REWRITTEN_BYTES, self._limit):
            with suppress(Unavailable):  # tried again with the next line
                self._rewrite()
        if self._ended:
            self._write(b"%d\n" * len(self._ended) % tuple(self._ended) + line)
            self._ended.clear()
        elif line:
            self._write(line)

    def _rewrite(self) -> None:
        """Leaves out what has ended. A process killed on the way leaves one of the two files, and each tells all."""
        new = self._path.with_name(self._path.name + _NEW)
        lines = b"".join(_line(number, intent) for number, intent in self._open.items())
        try:
            with _locked(self._directory):
                fd = _new_file(new)
                try:
                    if os.write(fd, lines) != len(lines):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    new.replace(self._path)
                except OSError:
                    os.close(fd)
                    new.unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise Unavailable(f"{new} cannot be written: {error.strerror}") from None
        os.close(self._fd)
        self._fd, self._written, self._limit, self._broken_line = fd, len(lines), 2 * len(lines), False
        self._ended.clear()

    def count(self) -> int:
        """How many changes are under way."""
        return len(self._open)

    def get(self, number: int) -> Intent | None:
        return self._open.get(number)

    def abandoned(self) -> Iterator[Abandoned]:
        """The files of processes that are gone, one by one; nobody else sees to one until the next is asked for."""
        for path in sorted(self._directory.iterdir()):
            fd = None if path == self._path else self._take_over(path)
            if fd is None:
                continue  # its process lives, or somebody else sees to it
            try:
                with open(fd, "rb", closefd=False) as file:
                    yield Abandoned(path, fd, parse(file.read()))
            finally:
                os.close(fd)

    def _take_over(self, path: Path) -> int | None:
        """The file, open and locked, if nobody else has it."""
        with _locked(self._directory):
            try:
                fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            except PermissionError as error:  # somebody put it there who is not the service
                logger.warning("%s cannot be looked into: %s", path, error.strerror)
                return None
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            is_gone = os.fstat(fd).st_nlink == 0  # somebody else has seen to it just now
            if path.name.endswith(_NEW):  # its process was killed; the file that it was to replace is still there
                path.unlink(missing_ok=True)
                is_gone = True
            if is_gone:
                os.close(fd)
                return None
            return fd

    def close(self) -> None:
        """Leaves the file to others if anything in it is open."""
        self.flush()
        self._ended.clear()
        if not self._open:
            self._path.unlink(missing_ok=True)
        os.close(self._fd)

    def _write(self, line: bytes) -> None:
        """A full disk may take a part of a line; it must spoil no other."""
        if self._broken_line:
            line = _END_OF_BROKEN_LINE + line
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}") from None
        self._written += written
        self._broken_line = written != len(line)
        if self._broken_line:
            raise Unavailable(f"{self._path} cannot be written: {os.strerror(errno.ENOSPC)}")


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Held for moments only, never while anybody waits for anything."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _new_file(path: Path) -> int:
    """Open and locked."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def _line(number: int, intent: Intent) -> bytes:
    changes = ",".join([f"[{_quoted(key)},{_quoted(version)}]" for key, version in intent.changes])
    return (
        f"[{number},{intent.started_at!r},{_quoted(intent.pool)},{_quoted(intent.bucket)},"
        f"[{changes}],{_quoted(intent.upload_id)},{_quoted(intent.backend)}]\n"
    ).encode()


def parse(text: bytes) -> dict[int, Intent]:
    """What a file tells to be open, by number. A line that was cut short by a full disk tells nothing."""
    found: dict[int, Intent] = {}
    for line in text.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, int):
            found.pop(entry, None)
        else:
            number, started_at, pool, bucket, changes, *rest = entry
            found[number] = Intent(started_at, pool, bucket, tuple((key, version) for key, version in changes), *rest)
    return found
