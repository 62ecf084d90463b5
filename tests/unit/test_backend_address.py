"""Addresses of backends: ports and Unix sockets, also where the path is longer than a socket's may be."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from tidegate.backend_address import host_header, is_socket, open_socket
from tidegate.gateway.http.backend import BackendGone, BackendPool, BackendSilent, ask

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture
def path(tmp_path: Path) -> str:
    deep = tmp_path.joinpath(*["a-long-name-of-a-directory"] * 5)
    deep.mkdir(parents=True)
    assert len(os.fsencode(deep)) > 107
    return str(deep / "s3.sock")


def listener(path: str, backlog: int = 10) -> socket.socket:
    """Bound by a descriptor of its directory, as a backend does it."""
    made = socket.socket(socket.AF_UNIX)
    directory = os.open(os.path.dirname(path), os.O_PATH)  # noqa: PTH120
    made.bind(f"/proc/self/fd/{directory}/{os.path.basename(path)}")  # noqa: PTH119
    os.close(directory)
    made.listen(backlog)
    return made


def pool_of(address: str, loop: asyncio.AbstractEventLoop, seconds: float = 5) -> BackendPool:
    return BackendPool(address, connect_seconds=seconds, keep=4, loop=loop)


def test_the_host_of_a_socket_is_localhost_and_that_of_a_port_its_address() -> None:
    assert is_socket("/run/s3.sock") and not is_socket("127.0.0.1:80")
    assert host_header("/run/s3.sock") == b"localhost"
    assert host_header("127.0.0.1:80") == b"127.0.0.1:80"


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_pool_of_connections_asks_a_socket_and_uses_the_connection_again(
    path: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def run() -> tuple[list[bytes], int]:
        accepted = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(1)
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(REPLY)

        server = await asyncio.start_unix_server(serve, sock=listener(path))
        pool = pool_of(path, asyncio.get_running_loop())
        request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        replies = [(await ask(pool, request, head_request=False, seconds=5)).body for _ in range(3)]
        pool.close()
        server.close()
        return replies, len(accepted)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(run()) == ([b"ok"] * 3, 1)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_socket_without_a_listener_or_a_file_is_a_backend_that_has_gone(
    path: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def run() -> None:
        with pytest.raises(BackendGone):
            await pool_of(path, asyncio.get_running_loop()).connect()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
        listener(path).close()
        runner.run(run())


def test_while_too_many_wait_to_be_accepted_a_connection_waits_too(path: str) -> None:
    async def run() -> None:
        full = listener(path, backlog=0)
        waiting = [open_socket(path)]
        with pytest.raises(BlockingIOError):
            while True:
                waiting.append(open_socket(path))
        with pytest.raises(BackendSilent):
            await pool_of(path, asyncio.get_running_loop(), seconds=0.1).connect()
        connecting = asyncio.create_task(pool_of(path, asyncio.get_running_loop()).connect())
        await asyncio.sleep(0.05)
        assert not connecting.done()
        accepted = [full.accept()[0] for _ in waiting]
        (await connecting).transport.close()
        for opened in (full, *waiting, *accepted):
            opened.close()

    asyncio.run(run())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_listener_of_another_user_than_the_directory_s_is_not_spoken_to(path: str) -> None:
    with listener(path):
        open_socket(path).close()
        os.chown(os.path.dirname(path), 65534, -1)  # noqa: PTH120
        with pytest.raises(PermissionError):
            open_socket(path)
