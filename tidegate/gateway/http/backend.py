"""Connections to backends: kept alive and used again, one request at a time."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from typing import Any, Protocol, cast

from tidegate.backend_address import is_socket, open_socket
from tidegate.core.errors import Unavailable
from tidegate.gateway.http.http1 import END_OF_HEAD, BadMessage, ChunkedDecoder, ResponseHead

# However a connection over TCP ends, by a killed process, too, the backend sees a reset: at an orderly end in place of
# a body, SeaweedFS stores an empty object.
_END_BY_RESET = struct.pack("ii", 1, 0)
_HEAD_LIMIT = 64 * 1024
# Errors that say nothing about the backend.
_OWN_LACK = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FULL_QUEUE_SECONDS = 0.005
_OLDEST_IDLE_SECONDS = 20.0  # well below the time after which backends close idle connections


class Receiver(Protocol):
    """Who waits for a response. After `response_ended` or `backend_failed` nothing more comes."""

    def response_started(self, head: ResponseHead) -> None: ...

    def response_data(self, data: bytes) -> None:
        """A piece of the body as it stands on the wire: chunked if the head says so."""

    def response_ended(self) -> None: ...

    def backend_failed(self, error: Exception) -> None: ...

    def backend_writable(self, writable: bool) -> None: ...


class BackendConnection(asyncio.Protocol):
    """One connection. It is idle, or serves one `Receiver`."""

    __slots__ = (
        "_buffer",
        "_decoder",
        "_head_request",
        "_left",
        "_pool",
        "_receiver",
        "head",
        "idle_since",
        "is_plain",
        "transport",
        "used",
    )

    def __init__(self, pool: BackendPool) -> None:
        self._pool = pool
        self._receiver: Receiver | None = None
        self._buffer = b""
        self._decoder: ChunkedDecoder | None = None
        self._left: int | None = 0
        self._head_request = False
        self.head: ResponseHead | None = None
        self.idle_since = 0.0
        self.used = False
        self.is_plain = True
        self.transport: asyncio.Transport = cast(Any, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.is_plain = transport.get_extra_info("sslcontext") is None
        opened = transport.get_extra_info("socket")
        if opened.family != socket.AF_UNIX:  # which knows no reset
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _END_BY_RESET)

    def begin(self, receiver: Receiver, *, head_request: bool) -> None:
        self._receiver = receiver
        self._head_request = head_request
        self.head = None
        self._buffer = b""

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self._receiver is None:
            self.transport.abort()  # a backend that speaks unasked is not to be trusted with the next request
            return
        try:
            if self.head is None:
                self._head_received(data)
            else:
                self._body_received(data)
        except BadMessage as error:
            self._fail(Unavailable(f"the backend's reply is not HTTP: {error}"))

    def _head_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        end = data.find(END_OF_HEAD)
        if end < 0:
            if len(data) > _HEAD_LIMIT:
                raise BadMessage("the head is too long")
            self._buffer = data
            return
        self._buffer = b""
        end += 4
        head = ResponseHead(data[:end], to_head_request=self._head_request)
        rest = data[end:]
        if head.status < 200:
            if rest:
                self._head_received(rest)
            return
        self.head = head
        self._left = head.length
        self._decoder = ChunkedDecoder(response=True) if head.chunked else None
        receiver = self._receiver
        assert receiver is not None
        receiver.response_started(head)
        if rest:
            if self._receiver is receiver:
                self._body_received(rest)
        elif self._left == 0 and self._receiver is receiver:
            self._end()

    def _body_received(self, data: bytes) -> None:
        receiver = self._receiver
        assert receiver is not None
        if self._decoder is not None:
            self._decoder.feed(data)
            receiver.response_data(data)
            if self._decoder.complete and self._receiver is receiver:
                self._end()
        elif self._left is None:
            receiver.response_data(data)
        else:
            if len(data) > self._left:
                raise BadMessage("the body is longer than its head says")
            self._left -= len(data)
            receiver.response_data(data)
            if self._left == 0 and self._receiver is receiver:
                self._end()

    def body_bypassed(self) -> None:
        """The rest of the body went to the client without passing through here."""
        self._left = 0
        self._end()

    @property
    def body_left(self) -> int:
        return self._left or 0

    def _end(self) -> None:
        receiver, self._receiver = self._receiver, None
        assert receiver is not None and self.head is not None
        if self.head.keep_alive and not (self._decoder and self._decoder.excess):
            self._pool.give_back(self)
        else:
            self.transport.close()
        receiver.response_ended()

    def _fail(self, error: Exception) -> None:
        receiver, self._receiver = self._receiver, None
        self.transport.abort()
        if receiver is not None:
            receiver.backend_failed(error)

    def abandon(self) -> None:
        """The request is given up: the backend sees its connection end."""
        self._receiver = None
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.forget(self)
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        if self.head is not None and self._left is None and self._decoder is None and exc is None:
            receiver.response_ended()
        else:
            receiver.backend_failed(exc or ConnectionResetError("the backend closed the connection"))

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.backend_writable(False)

    def resume_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.backend_writable(True)


class BackendPool:
    """The connections of this process to one backend address."""

    def __init__(
        self,
        address: str,
        *,
        connect_seconds: float,
        keep: int,
        loop: asyncio.AbstractEventLoop,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """With `tls` the other side must show a certificate for its name."""
        self.address = address
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._keep = keep
        self._loop = loop
        self._idle: list[BackendConnection] = []

    def take_idle(self) -> BackendConnection | None:
        oldest = self._loop.time() - _OLDEST_IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since >= oldest and not connection.transport.is_closing():
                connection.used = True
                return connection
            connection.transport.close()
        return None

    async def connect(self) -> BackendConnection:
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await (self._connect_socket() if is_socket(self.address) else self._connect_port())
        except TimeoutError:
            raise BackendSilent(f"no connection to the backend at {self.address}") from None
        except OSError as error:
            if error.errno in _OWN_LACK:
                raise Unavailable(f"no connection can be opened: {error.strerror}") from None
            raise BackendGone(f"the backend at {self.address} refuses connections: {error}") from None

    async def _connect_port(self) -> BackendConnection:
        host, _, port = self.address.rpartition(":")
        _, connection = await self._loop.create_connection(
            lambda: BackendConnection(self), host.strip("[]"), int(port), ssl=self._tls
        )
        return connection

    async def _connect_socket(self) -> BackendConnection:
        while True:
            try:
                opened = open_socket(self.address)
                break
            except BlockingIOError:
                await asyncio.sleep(_FULL_QUEUE_SECONDS)
        try:
            _, connection = await self._loop.create_unix_connection(lambda: BackendConnection(self), sock=opened)
        except BaseException:
            opened.close()
            raise
        return connection

    def give_back(self, connection: BackendConnection) -> None:
        if len(self._idle) < self._keep and not connection.transport.is_closing():
            # Who was slower than the backend may have stopped reading, and the end came all the same.
            connection.transport.resume_reading()
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        else:
            connection.transport.close()

    def forget(self, connection: BackendConnection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.transport.close()


class BackendGone(Unavailable):
    """Nobody listens there: the backend has stopped."""


class BackendSilent(Unavailable):
    """The backend is there and does not answer."""


class Reply:
    """A whole response, for requests that the gateway makes itself."""

    __slots__ = ("body", "head")

    def __init__(self, head: ResponseHead, body: bytes) -> None:
        self.head = head
        self.body = body


class _Collector:
    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self.done: asyncio.Future[Reply] = loop.create_future()
        self._limit = limit
        self._head: ResponseHead | None = None
        self._parts: list[bytes] = []
        self._size = 0

    def response_started(self, head: ResponseHead) -> None:
        self._head = head

    def response_data(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= self._limit:
            self._parts.append(data)

    def response_ended(self) -> None:
        assert self._head is not None
        if self.done.done():
            return
        if self._size > self._limit:
            self.done.set_exception(Unavailable("the backend's reply is too long"))
            return
        self.done.set_result(Reply(self._head, whole_body(self._head, self._parts)))

    def backend_failed(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(Unavailable(f"the backend failed: {error}"))

    def backend_writable(self, writable: bool) -> None:
        return


def whole_body(head: ResponseHead, parts: list[bytes]) -> bytes:
    """The payload of a collected body."""
    data = b"".join(parts)
    return ChunkedDecoder(response=True).feed(data) if head.chunked else data


async def ask(pool: BackendPool, request: bytes, *, head_request: bool, seconds: float, limit: int = 4 << 20) -> Reply:
    """Sends one whole request and collects its reply. Raises `Unavailable`."""
    loop = asyncio.get_running_loop()
    connection = pool.take_idle() or await pool.connect()
    collector = _Collector(loop, limit)
    connection.begin(collector, head_request=head_request)
    connection.write(request)
    try:
        async with asyncio.timeout(seconds):
            return await collector.done
    except TimeoutError:
        connection.abandon()
        raise BackendSilent(f"the backend at {pool.address} did not answer in {seconds:g} s") from None
    except asyncio.CancelledError:
        connection.abandon()
        raise
