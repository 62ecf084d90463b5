"""The body of a request that is sent to the backend while it still comes in.

Its end is held back until all of it is here and checked, so that a body that breaks off leaves nothing. Large plain
bodies are spliced.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from tidegate.gateway.http import splice
from tidegate.gateway.http.http1 import chunk

if TYPE_CHECKING:
    from tidegate.gateway.http.backend import BackendConnection
    from tidegate.gateway.http.connection import ClientConnection
    from tidegate.gateway.requests.intake import Intake

HELD_BACK_BYTES = 16 * 1024
DRAIN_LOOK_SECONDS = 0.001


class BodyOwner(Protocol):
    """What a body on its way, up or down, tells the exchange that it belongs to."""

    def touch_deadline(self) -> None:
        """Bytes have moved."""

    def receive(self) -> None:
        """The client's next bytes are wanted here."""

    def hold_client(self) -> None:
        """The client's next bytes stay in its socket: they will be spliced."""

    def cut_off(self) -> None:
        """The rest cannot be moved."""


class BodyStream:
    __slots__ = ("_client", "_held_back", "_intake", "_is_chunked", "_loop", "_owner", "_splice", "_start")

    def __init__(
        self,
        owner: BodyOwner,
        loop: asyncio.AbstractEventLoop,
        intake: Intake,
        start: bytes,
        *,
        is_chunked: bool,
    ) -> None:
        """`start` is what of the body is here already; it goes out with what follows it."""
        self._owner = owner
        self._loop = loop
        self._intake = intake
        self._start = start
        self._is_chunked = is_chunked
        self._client: ClientConnection | None = None
        self._held_back: list[bytes] = []
        self._splice: splice.Splice | None = None

    def piece(self, payload: bytes) -> bytes:
        """What of the body may go out now that this much more of it is here."""
        piece = self._framed(payload)
        intake = self._intake
        if intake.payload_length is not None and intake.payload_length - intake.payload_bytes < HELD_BACK_BYTES:
            self._held_back.append(piece)
            return b""
        return piece

    def last_piece(self, payload: bytes) -> bytes:
        """What is left of the body, with this end of it."""
        held_back, self._held_back = self._held_back, []
        return b"".join((*held_back, self._framed(payload)))

    def _framed(self, payload: bytes) -> bytes:
        if self._start:
            payload, self._start = self._start + payload, b""
        return chunk(payload) if self._is_chunked else payload

    def splice_if_worthwhile(self, client: ClientConnection | None, connection: BackendConnection) -> None:
        intake = self._intake
        if client is None or client.plain_socket is None or not intake.bypassable:
            return
        if intake.left - HELD_BACK_BYTES >= splice.SMALLEST:
            self._client = client
            self._owner.hold_client()
            self._loop.call_soon(self._splice_when_drained, connection)

    def _splice_when_drained(self, connection: BackendConnection) -> None:
        client = self._client
        if client is None or client.plain_socket is None:
            return
        if connection.transport.get_write_buffer_size():
            self._loop.call_later(DRAIN_LOOK_SECONDS, self._splice_when_drained, connection)
            return
        spliced = splice.Splice(
            self._loop,
            client.plain_socket,
            connection.transport.get_extra_info("socket"),
            self._intake.left - HELD_BACK_BYTES,
            self._spliced,
            self._splice_ended,
        )
        if not spliced.closed:
            self._splice = spliced

    def _spliced(self, count: int) -> None:
        self._intake.bypassed(count)
        if count:
            self._owner.touch_deadline()

    def _splice_ended(self, error: OSError | None) -> None:
        self._splice = None
        if error is None:
            self._owner.receive()
        else:
            self._owner.cut_off()

    def nudge(self) -> bool:
        """Whether a spliced body goes on, be it slowly."""
        return self._splice is not None and self._splice.nudge()

    def stop(self) -> None:
        """The backend takes no more, or nobody waits any more."""
        self._client = None
        if self._splice is not None:
            self._splice.abort()
            self._splice = None
