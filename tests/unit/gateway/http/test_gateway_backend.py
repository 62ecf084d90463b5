"""Connections to backends, as they are kept and used again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from tidegate.gateway.http.backend import BackendConnection, BackendPool, ask
from tidegate.gateway.http.http1 import ResponseHead

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


class SlowReceiver:
    """Stops reading when data comes, also when that is all there is."""

    def __init__(self, connection: BackendConnection) -> None:
        self._connection = connection
        self.ended = asyncio.get_running_loop().create_future()

    def response_started(self, head: ResponseHead) -> None:
        return

    def response_data(self, data: bytes) -> None:
        self._connection.transport.pause_reading()

    def response_ended(self) -> None:
        self.ended.set_result(None)

    def backend_failed(self, error: Exception) -> None:
        self.ended.set_exception(error)

    def backend_writable(self, writable: bool) -> None:
        return


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_connection_that_was_not_read_from_when_its_reply_ended_is_read_from_for_the_next(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def run() -> tuple[bytes, int]:
        accepted = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer)
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(REPLY)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        pool = BackendPool(f"127.0.0.1:{port}", connect_seconds=5, keep=4, loop=asyncio.get_running_loop())
        connection = await pool.connect()
        slow = SlowReceiver(connection)
        connection.begin(slow, head_request=False)
        connection.write(REQUEST)
        await slow.ended
        body = (await ask(pool, REQUEST, head_request=False, seconds=10)).body
        pool.close()
        server.close()
        return body, len(accepted)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(run()) == (b"ok", 1)
