"""A client's connection: finds the heads of requests, hands bodies to the exchange, writes replies."""

from __future__ import annotations

import asyncio
import socket
import struct
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import TYPE_CHECKING, Any, cast

from tidegate.core.s3errors import S3Error, error_xml
from tidegate.gateway.http.http1 import END_OF_HEAD, BadMessage, RequestHead
from tidegate.gateway.requests.exchange import Exchange

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

_NUMBER = struct.Struct("i")
_READ_AHEAD_BYTES = 256 * 1024
_DISCARDED_BYTES = 1 << 20  # an unwanted body up to this size is read to keep the connection
_LINGER_SECONDS = 2.0  # otherwise the client has this long to read the reply before the connection goes


class ClientConnection(asyncio.Protocol):
    """Serves one request after another; what a client sends ahead waits."""

    __slots__ = (
        "_buffer",
        "_closing",
        "_discard",
        "_eof",
        "_gateway",
        "_lingering",
        "_reading",
        "deadline",
        "exchange",
        "peer",
        "plain_socket",
        "transport",
        "write_paused",
    )

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.transport: asyncio.Transport = cast(Any, None)
        self.plain_socket: socket.socket | None = None
        self.peer = "-"
        self.exchange: Exchange | None = None
        self.deadline = 0.0
        self.write_paused = False
        self._buffer = b""
        self._closing = False
        self._eof = False
        self._reading = True
        self._discard = 0
        self._lingering = False

    # --- what the event loop calls ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else "-"
        if transport.get_extra_info("sslcontext") is None:
            self.plain_socket = transport.get_extra_info("socket")
        self.deadline = self._gateway.loop.time() + self._gateway.settings.gateway.head_seconds
        self._gateway.connections.add(self)
        self._gateway.idle[self] = self._gateway.loop.time()

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            if self._lingering:
                return
            if self._discard:
                data = self._discarded(data)
                if not data:
                    return
            self._head_data(self._buffer + data if self._buffer else data)
        elif exchange.receiving:
            self._give_body(exchange, data)
        else:
            self._buffer += data
            if len(self._buffer) > _READ_AHEAD_BYTES:
                self.pause(True)

    def eof_received(self) -> bool:
        """A client may stop sending and still wait for its reply; one that breaks off its request may not."""
        self._eof = True
        self._closing = True
        exchange = self.exchange
        if exchange is None:
            return False
        if exchange.receiving:
            self.abort()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._gateway.connections.discard(self)
        self._gateway.idle.pop(self, None)
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.client_lost()

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        if self.exchange is not None:
            self.exchange.client_writable()

    # --- heads -----------------------------------------------------------------------------------

    def _head_data(self, data: bytes) -> None:
        limit = self._gateway.settings.gateway.head_limit_bytes
        data = data.lstrip(b"\r\n") if data[:1] in b"\r\n" else data
        end = data.find(END_OF_HEAD)
        if end < 0 or end > limit:
            if len(data) > limit or end > limit:
                self._refuse_head(S3Error("RequestHeaderSectionTooLarge"))
            else:
                if data and not self._buffer:
                    self.deadline = self._gateway.loop.time() + self._gateway.settings.gateway.head_seconds
                self._buffer = data
            return
        end += 4
        self._buffer = data[end:]
        try:
            head = RequestHead(data[:end])
        except BadMessage as error:
            self._refuse_head(S3Error("BadRequest", f"The request is not well-formed HTTP: {error}"))
            return
        if not head.keep_alive or self._gateway.draining:
            self._closing = True
        self._gateway.idle.pop(self, None)
        exchange = self.exchange = Exchange(self._gateway, self, head)
        exchange.start()

    def _refuse_head(self, error: S3Error) -> None:
        """Where one request is malformed, nothing after it on the connection can be trusted."""
        gateway = self._gateway
        request_id = gateway.next_request_id()
        body = error_xml(error, resource="", request_id=request_id)
        gateway.malformed_head(self.peer, error)
        headers = {"Content-Type": "application/xml"}
        self.write(gateway.own_reply(error.status, request_id, headers, body, keep_alive=False))
        self._linger()

    # --- what the exchange calls -----------------------------------------------------------------

    def body_wanted(self) -> None:
        exchange = self.exchange
        data, self._buffer = self._buffer, b""
        self.pause(False)
        if data and exchange is not None:
            self._give_body(exchange, data)
        if self._eof and exchange is not None and exchange.receiving:
            self.abort()  # what is here is all that will ever come

    def _give_body(self, exchange: Exchange, data: bytes) -> None:
        self._buffer = exchange.body_data(data)
        if self._buffer and self.exchange is None:  # answered at once, and the next request is here already
            self._gateway.loop.call_soon(self._next_request)

    def pause(self, paused: bool) -> None:
        if paused == (not self._reading) or self.transport.is_closing():
            return
        self._reading = not paused
        if paused:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    @property
    def raw_socket(self) -> socket.socket:
        opened: socket.socket = self.transport.get_extra_info("socket")
        return opened

    @property
    def write_buffer_size(self) -> int:
        return self.transport.get_write_buffer_size()

    @property
    def unsent_bytes(self) -> int:
        """What the kernel has and the client has not."""
        if self.transport.is_closing():
            return 0
        found = ioctl(self.raw_socket.fileno(), TIOCOUTQ, bytes(_NUMBER.size))
        return int(_NUMBER.unpack(found)[0])

    @property
    def keeps_alive(self) -> bool:
        return not self._closing

    def close_after_reply(self) -> None:
        self._closing = True

    def discard_body(self, left: int, chunked: bool) -> None:
        """The reply goes out before the request's body was read."""
        if chunked or left > _DISCARDED_BYTES:
            self._closing = True
        else:
            gone = min(left, len(self._buffer))
            self._buffer = self._buffer[gone:]
            self._discard = left - gone

    def exchange_ended(self) -> None:
        self.exchange = None
        loop = self._gateway.loop
        if self in self._gateway.connections:
            self._gateway.idle[self] = loop.time()
        if self._closing or self._gateway.draining:
            self._linger()
            return
        self.deadline = loop.time() + self._gateway.settings.gateway.idle_seconds
        self.pause(False)
        if self._buffer:
            loop.call_soon(self._next_request)

    def _next_request(self) -> None:
        if self.exchange is None and self._buffer and not self._lingering and not self.transport.is_closing():
            data, self._buffer = self._buffer, b""
            self.data_received(data)

    def _discarded(self, data: bytes) -> bytes:
        gone = min(self._discard, len(data))
        self._discard -= gone
        return data[gone:]

    # --- the end ---------------------------------------------------------------------------------

    def _linger(self) -> None:
        """Closes so that the client can read the reply even while it is still sending."""
        self._closing = True
        if self._eof or self.transport.is_closing():
            self.transport.close()
            return
        self._lingering = True
        self._buffer = b""
        self.deadline = self._gateway.loop.time() + _LINGER_SECONDS
        self.pause(False)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def close_if_idle(self) -> None:
        """For draining: whoever has a request running may finish it."""
        self._closing = True
        if self.exchange is None:
            self.transport.close()

    def check_deadline(self, now: float) -> None:
        exchange = self.exchange
        if exchange is not None:
            if exchange.deadline < now:
                exchange.timed_out()
        elif self.deadline < now:
            if self._lingering:
                self.transport.abort()
            else:
                self.transport.close()
