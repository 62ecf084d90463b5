"""A moved object on its way to the client: its data comes from where it lies, its head from its record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tidegate.core.conditional_reads import Span
from tidegate.core.placements import Placement
from tidegate.gateway.http.backend import BackendConnection
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.placements.sources import source_of
from tidegate.gateway.placements.stubs import stub_name
from tidegate.gateway.requests.reply_path import ReplyPath

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange

logger = logging.getLogger(__name__)


class ColdRead:
    """What a `Transfer` is to other reads. `head` is what the client gets before the data. `again` looks the object up
    once more, for when the data has moved on in the meantime."""

    __slots__ = (
        "_again",
        "_connection",
        "_exchange",
        "_head",
        "_record",
        "_reply_path",
        "_retried",
        "_span",
        "reply",
        "sent",
    )

    def __init__(
        self,
        exchange: Exchange,
        record: Placement,
        span: Span,
        head: bytes,
        again: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._exchange = exchange
        self._record = record
        self._span = span
        self._head = head
        self._again = again
        self._connection: BackendConnection | None = None
        self._reply_path: ReplyPath | None = None
        self._retried = False
        self.reply: ResponseHead | None = None
        self.sent = False  # a location that is slow says nothing about the pool's backend

    async def start(self) -> None:
        exchange = self._exchange
        pool, request = await source_of(exchange, self._record, self._span)
        connection = (None if self._retried else pool.take_idle()) or await pool.connect()
        if exchange.finished:
            connection.abandon()
            return
        connection.begin(self, head_request=False)
        self._connection = connection
        connection.write(request)
        exchange.wait(exchange.gateway.settings.gateway.backend_seconds)

    # --- from where the data lies ----------------------------------------------------------------

    def response_started(self, head: ResponseHead) -> None:
        exchange, connection = self._exchange, self._connection
        assert connection is not None
        if head.status == 404:
            self._connection = None
            connection.abandon()
            exchange.spawn(self._again())
            return
        if head.status != 206 or head.length != self._span.length or not self._is_intact(head):
            self._fail(f"{self._where} answered with status {head.status} and not with the data that was moved there")
            return
        self.reply = head
        exchange.status = 206 if self._span.is_part else 200
        exchange.touch_deadline()
        path = self._reply_path = ReplyPath(exchange, exchange.gateway.loop, connection)
        if exchange.client is not None:
            path.pass_on(exchange.client, self._head, length=head.length, dechunks=False)

    def _is_intact(self, head: ResponseHead) -> bool:
        if not self._record.location:  # it was moved back, and a client may put another object in its place right now
            return stub_name(head) == self._record.stub_name
        etag = head.headers.get(b"etag", b"").decode("latin-1").strip('"')
        return not self._record.data_etag or not etag or etag == self._record.data_etag

    def response_data(self, data: bytes) -> None:
        if self._reply_path is not None:
            self._reply_path.data(data)

    def response_ended(self) -> None:
        self._connection = None
        if self._reply_path is not None:
            self._reply_path.ended()
            self._exchange.finish()

    def backend_failed(self, error: Exception) -> None:
        connection, self._connection = self._connection, None
        if self.reply is not None:
            self._exchange.cut_off()
        elif connection is not None and connection.used and not self._retried:
            # An idle connection that was closed just now: nothing was lost but the connection.
            self._retried = True
            self._exchange.spawn(self.start())
        else:
            self._fail(f"{self._where} failed: {error}")

    def backend_writable(self, writable: bool) -> None:
        return

    def _fail(self, why: str) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()
        self._exchange.gateway.count_backend_error("location")
        self._exchange.backend_failed(why)

    @property
    def _where(self) -> str:
        return f"location {self._record.location}" if self._record.location else "the backend"

    # --- to the client, and the end --------------------------------------------------------------

    def client_writable(self) -> None:
        if self._reply_path is not None:
            self._reply_path.client_writable()

    @property
    def sent_bytes(self) -> int:
        return self._reply_path.sent_bytes if self._reply_path is not None else 0

    def nudge(self) -> bool:
        return self._reply_path is not None and self._reply_path.nudge()

    def abandon(self) -> None:
        if self._reply_path is not None:
            self._reply_path.stop()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()
