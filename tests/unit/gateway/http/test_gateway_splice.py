"""Bodies from socket to socket: every byte, in both kinds of haste, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import uvloop

from tidegate.gateway.http import splice
from tidegate.gateway.http.splice import SMALLEST, Splice

MIB = 1 << 20


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Iterator[None]:
    for pipe in splice._idle_pipes:
        os.close(pipe[0])
        os.close(pipe[1])
    splice._idle_pipes.clear()
    uvloop.new_event_loop().close()  # the first one of a process opens a pipe for signals, which stays
    gc.collect()  # what other tests have left is closed now, not during this one
    before = open_descriptors()
    yield
    assert open_descriptors() - 2 * len(splice._idle_pipes) == before


class Wire:
    """sender → source ‖ target → reader, over real TCP; the two in the middle belong to the splice."""

    def __init__(self) -> None:
        self.sender, self.source = _connected()
        self.target, self.reader = _connected()
        self.source.setblocking(False)
        self.target.setblocking(False)
        self.progress: list[int] = []

    def close(self) -> None:
        for end in (self.sender, self.source, self.target, self.reader):
            end.close()

    async def splice(self, count: int) -> OSError | None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[OSError | None] = loop.create_future()
        self.transfer = Splice(loop, self.source, self.target, count, self.progress.append, done.set_result)
        async with asyncio.timeout(60):
            return await done


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    return one, other


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.close()


def in_thread(work, *arguments) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    return thread


def read_all(end: socket.socket, count: int, into: bytearray, piece: int = 65536) -> None:
    while len(into) < count and (data := end.recv(min(piece, count - len(into)))):
        into += data


def send_until_refused(end: socket.socket, count: int) -> None:
    with suppress(OSError):  # the other side may be closed under it
        end.sendall(bytes(count))


@pytest.mark.parametrize(
    "count", [1, 2, 4095, 65537, SMALLEST - 1, SMALLEST, SMALLEST + 1, MIB, 3 * MIB + 17, 20 * MIB + 1]
)
def test_exactly_so_many_bytes_pass_and_what_follows_stays(wire: Wire, count: int) -> None:
    data = random.Random(count).randbytes(count)
    received = bytearray()
    threads = [in_thread(wire.sender.sendall, data + b"next"), in_thread(read_all, wire.reader, count, received)]
    assert uvloop.run(wire.splice(count)) is None
    for thread in threads:
        thread.join()
    assert received == data
    assert sum(wire.progress) == count
    wire.source.setblocking(True)
    assert wire.source.recv(100) == b"next"
    assert wire.source.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


def test_a_slow_reader_holds_the_sender_back(wire: Wire) -> None:
    count = 48 * MIB
    state = {"sent": 0}

    def send() -> None:
        block = bytes(MIB)
        while state["sent"] < count:
            wire.sender.sendall(block)
            state["sent"] += MIB

    async def main() -> None:
        task = asyncio.create_task(wire.splice(count))
        quiet, last = 0, -1
        while quiet < 5:  # until nothing moves any more, all buffers being full
            await asyncio.sleep(0.05)
            quiet, last = (quiet + 1, last) if state["sent"] == last else (0, state["sent"])
        assert state["sent"] < count, "the sender was never held back"
        reader = in_thread(read_all, wire.reader, count, received, MIB)
        assert await task is None
        reader.join()

    received = bytearray()
    sender = in_thread(send)
    uvloop.run(main())
    sender.join()
    assert len(received) == count


def test_a_sender_that_stops_in_the_middle_is_an_error(wire: Wire) -> None:
    received = bytearray()
    reader = in_thread(read_all, wire.reader, 2 * MIB, received)
    sender = in_thread(lambda: (wire.sender.sendall(bytes(MIB)), wire.sender.close()))
    assert isinstance(uvloop.run(wire.splice(2 * MIB)), ConnectionError)
    wire.target.close()
    sender.join()
    reader.join()
    assert len(received) == MIB


def test_a_receiver_that_goes_away_is_an_error(wire: Wire) -> None:
    sender = in_thread(send_until_refused, wire.sender, 32 * MIB)
    reader = in_thread(lambda: (wire.reader.recv(1000), wire.reader.close()))
    assert isinstance(uvloop.run(wire.splice(32 * MIB)), OSError)
    reader.join()
    wire.source.close()
    sender.join()


def test_an_aborted_splice_calls_nobody_and_does_no_more(wire: Wire) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        called: list[object] = []
        transfer = Splice(loop, wire.source, wire.target, 4 * MIB, lambda _: None, called.append)
        wire.sender.sendall(bytes(300_000))
        await asyncio.sleep(0.05)
        transfer.abort()
        transfer.abort()
        wire.sender.sendall(bytes(300_000))
        await asyncio.sleep(0.05)
        assert called == [] and transfer.closed

    uvloop.run(main())
    assert wire.source.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


def test_a_nudge_moves_even_little_and_tells_whether_anything_moved(wire: Wire) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        transfer = Splice(loop, wire.source, wire.target, 4 * MIB, wire.progress.append, lambda _: None)
        assert not transfer.nudge()
        wire.sender.sendall(b"little")
        assert await loop.run_in_executor(None, _comes_in, wire.source)
        assert transfer.nudge() and sum(wire.progress) == 6
        assert not transfer.nudge()
        transfer.abort()

    uvloop.run(main())
    assert wire.reader.recv(100) == b"little"


def _comes_in(end: socket.socket) -> bool:
    """Waits until the socket has bytes, without taking them."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with suppress(BlockingIOError):
            return bool(end.recv(1, socket.MSG_PEEK))
        time.sleep(0.001)
    return False


def test_pipes_are_used_again_but_never_with_somebody_elses_bytes(wire: Wire) -> None:
    async def aborted_with_a_full_pipe() -> None:
        loop = asyncio.get_running_loop()
        transfer = Splice(loop, wire.source, wire.target, 64 * MIB, lambda _: None, lambda _: None)
        while not transfer._in_pipe:  # noqa: ASYNC110 - the reader takes nothing
            await asyncio.sleep(0.01)
        transfer.abort()

    sender = in_thread(send_until_refused, wire.sender, 64 * MIB)
    uvloop.run(aborted_with_a_full_pipe())
    assert splice._idle_pipes == []
    wire.close()
    sender.join()
    fresh = Wire()
    received = bytearray()
    reader = in_thread(read_all, fresh.reader, MIB, received)
    sender = in_thread(fresh.sender.sendall, b"x" * MIB)
    assert uvloop.run(fresh.splice(MIB)) is None
    sender.join()
    reader.join()
    assert received == b"x" * MIB
    assert len(splice._idle_pipes) == 1
    fresh.close()
