"""The forwarding of one request: to the backend as a whole or as it comes in, and what becomes of the reply.

The last bytes of a change leave only when the whole request has been received and checked, and its key is locked.
The reply to a change is withheld until the log has its events; so is one that is to be looked into or written anew.
A head never goes out alone: at the end of a connection in place of a body, SeaweedFS stores an empty object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.s3errors import S3Error
from tidegate.gateway.http.backend import BackendConnection, whole_body
from tidegate.gateway.http.http1 import LAST_CHUNK, ResponseHead
from tidegate.gateway.requests.body_stream import BodyStream
from tidegate.gateway.requests.made_change import log_change
from tidegate.gateway.requests.replies import is_dechunked, is_stub, reply_head, rewritten
from tidegate.gateway.requests.reply_path import ReplyPath

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange
    from tidegate.gateway.requests.forwarding import ForwardedRequest
    from tidegate.gateway.requests.intake import Intake


class Transfer:
    """Work for an exchange, which it ends. It is the `Receiver` of what the backend answers."""

    __slots__ = (
        "_after_reply",
        "_connection",
        "_exchange",
        "_last_bytes",
        "_reply_path",
        "_request",
        "_retried",
        "_starts",
        "_stream",
        "reply",
        "sent",
    )

    def __init__(self, exchange: Exchange, request: ForwardedRequest) -> None:
        self._exchange = exchange
        self._request = request
        self._connection: BackendConnection | None = None
        self._stream: BodyStream | None = None
        self._reply_path: ReplyPath | None = None
        self._starts = True
        self._last_bytes = b""
        self._retried = False
        self._after_reply: Callable[[], None] | None = None
        self.reply: ResponseHead | None = None
        self.sent = False

    # --- to the backend --------------------------------------------------------------------------

    def send(self, body: bytes) -> None:
        """A request that is here as a whole."""
        self._last_bytes = body
        self._with_connection(self._commit)

    def stream(self, start: bytes, intake: Intake) -> None:
        """A request whose body, which has this start, is still to come."""
        exchange = self._exchange
        self._stream = BodyStream(exchange, exchange.gateway.loop, intake, start, is_chunked=self._request.is_chunked)
        self._with_connection(self._stream_connected)

    def _stream_connected(self) -> None:
        exchange = self._exchange
        exchange.touch_deadline()
        if exchange.request_consumed:
            self.body(b"", complete=True)
        else:
            exchange.receive()

    def _with_connection(self, then: Callable[[], None]) -> None:
        exchange = self._exchange
        address = exchange.admitted.pool.address
        connection = exchange.gateway.backends.at(address).take_idle() if address is not None else None
        if connection is not None:
            self._use(connection, then)
        else:
            exchange.spawn(self._connect(then))

    async def _connect(self, then: Callable[[], None]) -> None:
        exchange = self._exchange
        connection, exchange.admitted.pool = await exchange.gateway.backends.connect(exchange.admitted.pool)
        if exchange.finished:
            connection.abandon()
        else:
            self._use(connection, then)

    def _use(self, connection: BackendConnection, then: Callable[[], None]) -> None:
        connection.begin(self, head_request=self._exchange.head.method == b"HEAD")
        self._connection = connection
        then()

    def body(self, payload: bytes, *, complete: bool) -> None:
        """A piece of a body that is streamed."""
        connection, stream = self._connection, self._stream
        if connection is None or stream is None or self.reply is not None:
            return  # the backend has answered already and reads no more
        if complete:
            self._last_bytes = stream.last_piece(payload)
            self._commit()
            return
        piece = stream.piece(payload)
        if piece:
            connection.write(self._started() + piece)
            stream.splice_if_worthwhile(self._exchange.client, connection)

    def _started(self) -> bytes:
        """The head and what goes before the body, with the first bytes that are sent; then nothing."""
        if not self._starts:
            return b""
        self._starts = False
        return self._request.head(self._exchange.admitted.pool) + self._request.start

    def _commit(self) -> None:
        admission = self._exchange.admitted
        if admission.before_commit is not None:
            self._exchange.spawn(self._complete_when_checked(admission))
        elif admission.operation.logs_events and not self._exchange.change.try_lock(admission.object_key):
            self._exchange.spawn(self._complete_when_locked(admission.object_key))
        else:
            self._complete()

    async def _complete_when_checked(self, admission: Admission) -> None:
        assert admission.before_commit is not None
        if not self._exchange.change.is_locked:
            await self._exchange.change.lock([admission.object_key])
        await admission.before_commit()
        self._complete()

    async def _complete_when_locked(self, key: str) -> None:
        await self._exchange.change.lock([key])
        self._complete()

    def _complete(self) -> None:
        exchange = self._exchange
        if self._connection is None:
            return
        if exchange.admitted.operation.logs_events:
            try:
                exchange.change.open_intent(exchange.admitted)
            except Unavailable as error:
                exchange.backend_failed(error)
                return
        end = LAST_CHUNK if self._request.is_chunked else self._request.end
        self._connection.write(self._started() + self._last_bytes + end)
        self.sent = True
        exchange.wait(exchange.gateway.settings.gateway.backend_seconds)

    def backend_writable(self, writable: bool) -> None:
        """Lets the client go on only if its bytes are wanted here: those that are to be spliced stay in its socket."""
        exchange = self._exchange
        if exchange.client is not None and (exchange.receiving or not writable):
            exchange.client.pause(not writable)

    # --- from the backend ------------------------------------------------------------------------

    def response_started(self, head: ResponseHead) -> None:
        exchange, connection = self._exchange, self._connection
        assert connection is not None
        self.reply = head
        path = self._reply_path = ReplyPath(exchange, exchange.gateway.loop, connection)
        exchange.status = head.status
        client, operation = exchange.client, exchange.admitted.operation
        if head.length is None and not head.chunked and client is not None:
            client.close_after_reply()  # nothing else tells the client where the reply ends
        if not self.sent:
            self._stop_body()
        elif operation.events is not None and 200 <= head.status < 300:
            self._withhold(self._changed)
            return
        if head.status >= 500 and head.status != 501:
            # A backend that stops, or has trouble: whatever it says, the client can only try again.
            exchange.backend_failed(f"the backend answered with status {head.status}")
            return
        if operation.logs_events:
            exchange.change.refused()
        exchange.touch_deadline()
        if self.sent and self._is_looked_into(head):
            return
        if client is not None:
            client_head = reply_head(exchange, head, keep_alive=client.keeps_alive)
            path.pass_on(client, client_head, length=head.length, dechunks=is_dechunked(exchange, head))

    def _stop_body(self) -> None:
        """The backend has made up its mind before it saw the whole request."""
        exchange = self._exchange
        exchange.receiving = False
        if self._stream is not None:
            self._stream.stop()
        if exchange.client is not None:
            exchange.client.close_after_reply()

    def _is_looked_into(self, head: ResponseHead) -> bool:
        """Whether the client does not get this reply as it is; then it is withheld."""
        operation = self._exchange.admitted.operation
        if operation.shows_object and is_stub(head):
            again = operation.placed
            assert again is not None
            self._withhold(lambda: self._exchange.spawn(again(self._exchange, self._exchange.admitted)))
            return True
        if head.status == 404 and operation.missing is not None:
            look = operation.missing(self._exchange, head)
            if look is not None:
                self._withhold(lambda: self._exchange.spawn(self._look_into(look)))
                return True
        if head.status == 200 and operation.reply_body is not None:
            self._withhold(self._release)
            return True
        return False

    def _withhold(self, after_reply: Callable[[], None]) -> None:
        assert self._reply_path is not None
        self._reply_path.withhold()
        self._after_reply = after_reply

    def response_data(self, data: bytes) -> None:
        assert self._reply_path is not None
        try:
            self._reply_path.data(data)
        except Unavailable as error:
            self.backend_failed(error)

    def response_ended(self) -> None:
        connection, self._connection = self._connection, None
        if not self.sent and connection is not None:
            connection.transport.abort()  # it still expects the rest of a body that will not come
        assert self._reply_path is not None
        self._reply_path.ended()
        if self._after_reply is not None:
            self._after_reply()
        else:
            self._exchange.finish()

    async def _look_into(self, look: Callable[[], Awaitable[S3Error | None]]) -> None:
        error = await look()
        if error is not None:
            raise error
        self._release()

    def _changed(self) -> None:
        assert self.reply is not None and self._reply_path is not None
        log_change(self._exchange, self.reply, whole_body(self.reply, [self._reply_path.withheld]), self._release)

    def _release(self) -> None:
        """The withheld reply goes to the client now."""
        exchange, head, path = self._exchange, self.reply, self._reply_path
        assert head is not None and path is not None
        client = exchange.client
        try:
            if client is not None:
                path.release(client, *rewritten(exchange, head, path.withheld, keep_alive=client.keeps_alive))
        except TidegateError as error:
            exchange.backend_failed(error)
        else:
            exchange.finish()

    # --- when it goes wrong, and the end ---------------------------------------------------------

    def backend_failed(self, error: Exception) -> None:
        exchange, connection = self._exchange, self._connection
        self._connection = None
        if connection is not None and not connection.transport.is_closing():
            connection.abandon()
        exchange.gateway.count_backend_error("broken")
        if self.reply is not None and self._after_reply is None:
            exchange.cut_off()
        elif self._may_retry(connection):
            # An idle connection that the backend closed just now: nothing was lost but the connection.
            self._retried = self._starts = True
            self.sent = False
            exchange.spawn(self._connect(self._commit))
        else:
            exchange.backend_failed(error)

    def _may_retry(self, connection: BackendConnection | None) -> bool:
        return (
            connection is not None
            and connection.used
            and self.sent
            and not self._retried
            and not self._exchange.admitted.operation.writes
        )

    def client_writable(self) -> None:
        if self._reply_path is not None:
            self._reply_path.client_writable()

    @property
    def sent_bytes(self) -> int:
        return self._reply_path.sent_bytes if self._reply_path is not None else 0

    def nudge(self) -> bool:
        """Whether a spliced body goes on, be it slowly."""
        part = self._stream if self.reply is None else self._reply_path
        return part is not None and part.nudge()

    def abandon(self) -> None:
        """Nobody waits any more. A backend that has not seen the whole request discards it."""
        if self._stream is not None:
            self._stream.stop()
        if self._reply_path is not None:
            self._reply_path.stop()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()
