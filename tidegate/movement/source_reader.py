"""Reads a version from one end to the other in pieces of a wanted size, and says whether it came whole.

A copy to a slow location may leave a connection to the source idle for so long that the other side ends it. Then
reading goes on where it stopped, from the very same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import md5
from types import TracebackType
from typing import Self

from tidegate.core.errors import Unavailable
from tidegate.core.identities import plain_md5
from tidegate.ports import Store, StoredHead

# So often in a row nothing may come.
_MOST_BREAKS = 3


class Stopped(Exception):
    """The process was told to end."""


class SourceReader:
    """`may_go_on` is asked before each piece. For one thread."""

    def __init__(self, store: Store, bucket: str, key: str, version_id: str, *, may_go_on: Callable[[], bool]) -> None:
        self._store = store
        self._where = (bucket, key, version_id)
        self._may_go_on = may_go_on
        self._opened = ExitStack()
        self._chunks: Iterator[bytes] = iter(())
        self._rest = b""
        self._position = self._received = 0
        self._digest = md5(usedforsecurity=False)
        self.head = StoredHead({})

    def __enter__(self) -> Self:
        stream = self._opened.enter_context(self._store.open(*self._where))
        self.head, self._chunks = stream.head, stream.chunks
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    def pieces(self, size: int) -> Iterator[bytes]:
        """The whole object; every piece but the last is of that size. An empty object has none. Raises `Unavailable` at
        the end if it is not what the source promised."""
        while self._position < self.head.size:
            yield self._piece(min(size, self.head.size - self._position))
        self._check()

    def _piece(self, size: int) -> bytes:
        parts, missing = [self._rest[:size]], size - len(self._rest[:size])
        self._rest = self._rest[size:]
        while missing:
            chunk = self._chunk()
            parts.append(chunk[:missing])
            self._rest = chunk[missing:]
            missing -= len(parts[-1])
        piece = b"".join(parts)
        self._position += size
        self._digest.update(piece)
        return piece

    def _chunk(self) -> bytes:
        breaks = 0
        while True:
            if not self._may_go_on():
                raise Stopped
            try:
                chunk = next(self._chunks, b"")
                if not chunk:
                    raise Unavailable(f"{'/'.join(self._where[:2])}: the source ended before its time")
                self._received += len(chunk)
                return chunk
            except Unavailable:
                breaks += 1
                if breaks > _MOST_BREAKS:
                    raise
            self._go_on()

    def _go_on(self) -> None:
        """From where it broke off. Raises `Conflict` if the object is another one by now."""
        self._opened.close()
        opened = self._store.open(*self._where, if_match=self.head.etag, start=self._received)
        stream = self._opened.enter_context(opened)
        self._chunks = stream.chunks

    def _check(self) -> None:
        if self._rest or next(self._chunks, b""):
            raise Unavailable(f"{'/'.join(self._where[:2])}: the source is longer than it said")
        expected = plain_md5(self.head.headers)
        if expected and self._digest.hexdigest() != expected:
            raise Unavailable(f"{'/'.join(self._where[:2])}: what was read does not have the ETag of the source")
