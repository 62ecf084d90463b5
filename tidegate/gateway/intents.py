"""Changes under way: what a gateway was about to do when it was killed, or when a backend failed on it.

Each process keeps a file of its own in `run/intents`, locked for as long as it lives. A line is written before the
last bytes of a change go out, another when the log has its event. What is left open is looked into by the healer.
A killed process loses nothing that it wrote, so no line waits for the disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path

from tidegate.core.errors import Unavailable

_TRUNCATED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Intent:
    """A change that may or may not have been made at the backend. `changes` are pairs of key and version id."""

    started_at: float
    pool: str
    bucket: str
    changes: tuple[tuple[str, str], ...]
    upload_id: str = ""


class Intents:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self._path = directory / f"{os.getpid()}-{secrets.token_hex(4)}"
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._open: dict[int, Intent] = {}
        self._count = 0
        self._written = 0

    def begin(self, intent: Intent) -> int:
        """Notes the change down before it is made; returns the number to `end` it with. Raises `Unavailable`."""
        self._count = number = self._count + 1
        changes = ",".join([f"[{_quoted(key)},{_quoted(version)}]" for key, version in intent.changes])
        self._write(
            f"[{number},{intent.started_at!r},{_quoted(intent.pool)},{_quoted(intent.bucket)},"
            f"[{changes}],{_quoted(intent.upload_id)}]\n"
        )
        self._open[number] = intent
        return number

    def end(self, number: int) -> None:
        """The change is in the log, or was certainly not made."""
        if self._open.pop(number, None) is None:
            return
        if not self._open and self._written > _TRUNCATED_BYTES:
            os.ftruncate(self._fd, 0)
            self._written = 0
        else:
            with suppress(Unavailable):  # the healer will then find nothing to do
                self._write(f"{number}\n")

    def count(self) -> int:
        """How many changes are under way."""
        return len(self._open)

    def get(self, number: int) -> Intent | None:
        return self._open.get(number)

    def abandoned(self) -> Iterator[tuple[Path, list[Intent]]]:
        """What processes that are gone left open, by file. The caller removes a file when all is seen to."""
        for path in self._directory.iterdir():
            if path == self._path:
                continue
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path, list(_read(path).values())
            except BlockingIOError:
                continue  # its process lives, or somebody else sees to it
            finally:
                os.close(fd)

    def close(self) -> None:
        """Leaves the file to others if anything in it is open."""
        if not self._open:
            self._path.unlink(missing_ok=True)
        os.close(self._fd)

    def _write(self, line: str) -> None:
        try:
            self._written += os.write(self._fd, line.encode())
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}") from None


def _read(path: Path) -> dict[int, Intent]:
    found: dict[int, Intent] = {}
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the disk was full in the middle of a line
        if isinstance(entry, int):
            found.pop(entry, None)
        else:
            number, started_at, pool, bucket, changes, upload_id = entry
            found[number] = Intent(
                started_at, pool, bucket, tuple((key, version) for key, version in changes), upload_id
            )
    return found
