"""Large plain bodies from socket to socket inside the kernel: they never enter this process."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from fcntl import fcntl

SMALLEST = 512 * 1024  # below this, copying costs less than setting up
_PIPE_BYTES = 1024 * 1024
_F_SETPIPE_SZ = 1031
_LOW_WATER = 256 * 1024  # wake up for this much at once
_TURN_BYTES = 8 * 1024 * 1024  # then others have their turn
_KEPT_PIPES = 32

_idle_pipes: list[tuple[int, int]] = []


def _take_pipe() -> tuple[int, int]:
    if _idle_pipes:
        return _idle_pipes.pop()
    pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    with suppress(OSError):  # beyond the user's share of pipe memory the default size does as well
        fcntl(pipe[1], _F_SETPIPE_SZ, _PIPE_BYTES)
    return pipe


def _opened(source: socket.socket, target: socket.socket) -> tuple[socket.socket, socket.socket, tuple[int, int]]:
    """The event loop refuses descriptors that belong to a transport; a duplicate is the same socket."""
    with ExitStack() as opened:
        duplicates = [opened.enter_context(socket.socket(fileno=os.dup(end.fileno()))) for end in (source, target)]
        pipe = _take_pipe()
        opened.pop_all()
    return duplicates[0], duplicates[1], pipe


class Splice:
    """Moves `count` bytes from one connected socket to another, then calls `done`, with the error if there was one.

    The sockets' transports must neither read from the source nor have anything left to write to the target.
    """

    __slots__ = ("_done", "_in_pipe", "_left", "_loop", "_pipe", "_progress", "_source", "_target", "_waits", "closed")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        source: socket.socket,
        target: socket.socket,
        count: int,
        progress: Callable[[int], None],
        done: Callable[[OSError | None], None],
    ) -> None:
        self._loop = loop
        self._left = count
        self._in_pipe = 0
        self._progress = progress
        self._done = done
        self._waits = ""
        self.closed = False
        try:
            self._source, self._target, self._pipe = _opened(source, target)
        except OSError as error:  # there are no descriptors left
            self.closed = True
            done(error)
            return
        self._set_low_water(min(_LOW_WATER, count))
        self._pump()

    def abort(self) -> None:
        """Stops without calling `done`."""
        self._close()

    def nudge(self) -> bool:
        """Moves what has come in, though less than worth waking up for. True if there was any."""
        before = self._left
        if self._waits == "r":
            self._pump()
        return self._left < before

    def _pump(self) -> None:
        if self.closed:
            return
        try:
            self._move()
        except OSError as error:
            self._finish(error)

    def _move(self) -> None:
        moved = 0
        while moved < _TURN_BYTES:
            if self._in_pipe == 0:
                if self._left == 0:
                    self._progress(moved)
                    return self._finish(None)
                try:
                    count = os.splice(self._source.fileno(), self._pipe[1], min(self._left, _PIPE_BYTES), flags=_MOVE)
                except BlockingIOError:
                    self._progress(moved)
                    if self._left < _LOW_WATER:
                        self._set_low_water(self._left)
                    return self._wait("r")
                if count == 0:
                    raise ConnectionResetError("the sender closed the connection in the middle of a body")
                self._left -= count
                self._in_pipe = count
            try:
                count = os.splice(self._pipe[0], self._target.fileno(), self._in_pipe, flags=_MOVE)
            except BlockingIOError:
                self._progress(moved)
                return self._wait("w")
            self._in_pipe -= count
            moved += count
        self._progress(moved)
        self._wait("")
        self._loop.call_soon(self._pump)
        return None

    def _set_low_water(self, count: int) -> None:
        self._source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, max(1, count))

    def _wait(self, what: str) -> None:
        if what == self._waits:
            return
        if self._waits == "r":
            self._loop.remove_reader(self._source.fileno())
        elif self._waits == "w":
            self._loop.remove_writer(self._target.fileno())
        self._waits = what
        if what == "r":
            self._loop.add_reader(self._source.fileno(), self._pump)
        elif what == "w":
            self._loop.add_writer(self._target.fileno(), self._pump)

    def _finish(self, error: OSError | None) -> None:
        self._close()
        self._done(error)

    def _close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._wait("")
        with suppress(OSError):  # the connection may be gone
            self._set_low_water(1)
        self._source.close()
        self._target.close()
        if self._in_pipe == 0 and len(_idle_pipes) < _KEPT_PIPES:
            _idle_pipes.append(self._pipe)
        else:
            os.close(self._pipe[0])
            os.close(self._pipe[1])


_MOVE = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
