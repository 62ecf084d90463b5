"""A backend's reply on its way to the client: passed on as it comes, or withheld until it has ended.

Large plain bodies are spliced, and a client that reads slowly slows the backend down.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidegate.core.errors import Unavailable
from tidegate.gateway.http import splice
from tidegate.gateway.http.backend import BackendConnection
from tidegate.gateway.http.http1 import ChunkedDecoder
from tidegate.gateway.requests.body_stream import DRAIN_LOOK_SECONDS, BodyOwner

if TYPE_CHECKING:
    from tidegate.gateway.http.connection import ClientConnection

_LONGEST_WITHHELD_REPLY = 4 << 20


class ReplyPath:
    __slots__ = (
        "_client",
        "_connection",
        "_decoder",
        "_loop",
        "_owner",
        "_splice",
        "_splices",
        "_unsent_head",
        "_withheld",
        "_withheld_bytes",
        "sent_bytes",
    )

    def __init__(self, owner: BodyOwner, loop: asyncio.AbstractEventLoop, connection: BackendConnection) -> None:
        self._owner = owner
        self._loop = loop
        self._connection: BackendConnection | None = connection
        self._client: ClientConnection | None = None
        self._decoder: ChunkedDecoder | None = None
        self._splice: splice.Splice | None = None
        self._splices = False
        self._unsent_head = b""
        self._withheld_bytes = 0
        self._withheld: list[bytes] | None = None
        self.sent_bytes = 0

    def withhold(self) -> None:
        """The reply is kept until it has ended."""
        self._withheld = []

    def pass_on(self, client: ClientConnection, head: bytes, *, length: int | None, dechunks: bool) -> None:
        """The reply goes to the client as it comes. The head goes out together with the first bytes of the body."""
        self._client = client
        self._unsent_head = head
        self._decoder = ChunkedDecoder(response=True) if dechunks else None
        are_plain = client.plain_socket is not None and self._connection is not None and self._connection.is_plain
        self._splices = are_plain and length is not None and length >= splice.SMALLEST

    def data(self, data: bytes) -> None:
        """A piece of the body. Raises `Unavailable` if that is longer than can be withheld."""
        if self._withheld is not None:
            self._withheld.append(data)
            self._withheld_bytes += len(data)
            if self._withheld_bytes > _LONGEST_WITHHELD_REPLY:
                raise Unavailable("the backend's reply is too long")
            return
        client, connection = self._client, self._connection
        if client is None or connection is None:
            return
        if self._decoder is not None:
            data = self._decoder.feed(data)
        self.sent_bytes += len(data)
        if self._unsent_head:
            data, self._unsent_head = self._unsent_head + data, b""
        client.write(data)
        if self._splices and connection.body_left >= splice.SMALLEST:
            connection.transport.pause_reading()
            self._splice_when_drained()
        elif client.write_paused:
            connection.transport.pause_reading()
        else:
            self._owner.touch_deadline()

    def _splice_when_drained(self) -> None:
        connection, client = self._connection, self._client
        if connection is None or client is None or client.plain_socket is None:
            return
        if client.write_buffer_size:
            self._loop.call_later(DRAIN_LOOK_SECONDS, self._splice_when_drained)
            return
        self._splices = False
        spliced = splice.Splice(
            self._loop,
            connection.transport.get_extra_info("socket"),
            client.plain_socket,
            connection.body_left,
            self._spliced,
            self._splice_ended,
        )
        if not spliced.closed:
            self._splice = spliced

    def _spliced(self, count: int) -> None:
        self.sent_bytes += count
        if count:
            self._owner.touch_deadline()

    def _splice_ended(self, error: OSError | None) -> None:
        self._splice = None
        connection = self._connection
        if connection is None:
            return
        if error is not None:
            self._owner.cut_off()
        else:
            connection.transport.resume_reading()
            connection.body_bypassed()

    def client_writable(self) -> None:
        if self._connection is not None and self._splice is None and not self._splices:
            self._connection.transport.resume_reading()

    @property
    def withheld(self) -> bytes:
        """What was withheld, as it came."""
        return b"".join(self._withheld or ())

    def ended(self) -> None:
        """The backend has sent all of it."""
        self._connection = None
        if self._unsent_head and self._client is not None:
            self._client.write(self._unsent_head)

    def release(self, client: ClientConnection, head: bytes, body: bytes) -> None:
        """Sends what was withheld, as it is to be."""
        self.sent_bytes += len(body)
        client.write(head + body if body else head)

    def nudge(self) -> bool:
        """Whether a spliced body goes on, be it slowly."""
        return self._splice is not None and self._splice.nudge()

    def stop(self) -> None:
        """Nothing more comes, or nobody waits any more."""
        self._client = self._connection = None
        if self._splice is not None:
            self._splice.abort()
            self._splice = None
