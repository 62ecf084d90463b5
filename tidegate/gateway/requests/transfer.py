"""A request on its way to a backend, and the reply on its way back.

The last bytes of a change leave only when the whole request has been received and checked and its key's
turn has come. The reply to a change is withheld until the exchange has journalled it; so is one that is to be looked
into or written anew. Large plain bodies are spliced.
A head never goes out alone: at the end of a connection in place of a body, SeaweedFS stores an empty object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.s3errors import S3Error
from tidegate.gateway.http import splice
from tidegate.gateway.http.backend import BackendConnection, whole_body
from tidegate.gateway.http.http1 import LAST_CHUNK, ChunkedDecoder, ResponseHead, chunk

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange
    from tidegate.gateway.requests.forwarding import ForwardedRequest

HELD_BACK_BYTES = 16 * 1024
_LONGEST_WITHHELD_REPLY = 4 << 20
_DRAIN_LOOK_SECONDS = 0.001


class Transfer:
    __slots__ = (
        "_connection",
        "_dechunk",
        "_ended",
        "_exchange",
        "_held_back",
        "_last_bytes",
        "_request",
        "_retried",
        "_splice",
        "_splice_reply",
        "_starts",
        "_unsent_head",
        "_withheld",
        "_withheld_bytes",
        "reply",
        "sent",
    )

    def __init__(self, exchange: Exchange, request: ForwardedRequest) -> None:
        self._exchange = exchange
        self._request = request
        self._starts = True
        self._connection: BackendConnection | None = None
        self.reply: ResponseHead | None = None
        self.sent = False
        self._held_back: list[bytes] = []
        self._last_bytes = b""
        self._retried = False
        self._splice: splice.Splice | None = None
        self._splice_reply = False
        self._withheld: list[bytes] | None = None
        self._ended: Callable[[], None] | None = None
        self._withheld_bytes = 0
        self._dechunk: ChunkedDecoder | None = None
        self._unsent_head = b""

    # --- to the backend --------------------------------------------------------------------------

    def send(self, body: bytes) -> None:
        """A request that is here as a whole."""
        self._last_bytes = body
        self._with_connection(self._commit)

    def stream(self, connected: Callable[[], None]) -> None:
        """A request whose body is still to come: `connected` is called when the backend can take it."""
        self._with_connection(connected)

    def _with_connection(self, then: Callable[[], None]) -> None:
        exchange = self._exchange
        address = exchange.admitted.pool.address
        connection = exchange.gateway.backends(address).take_idle() if address is not None else None
        if connection is not None:
            self._use(connection, then)
        else:
            exchange.spawn(self._connect(then))

    async def _connect(self, then: Callable[[], None]) -> None:
        exchange = self._exchange
        connection, exchange.admitted.pool = await exchange.gateway.connect(exchange.admitted.pool)
        if exchange.finished:
            connection.abandon()
        else:
            self._use(connection, then)

    def _use(self, connection: BackendConnection, then: Callable[[], None]) -> None:
        connection.begin(self, head_request=self._exchange.head.method == b"HEAD")
        self._connection = connection
        then()

    def _splice_body(self) -> None:
        exchange, connection = self._exchange, self._connection
        client, intake = exchange.client, exchange.intake
        if connection is None or intake is None or client is None or client.plain_socket is None or self.reply:
            return
        if connection.transport.get_write_buffer_size():
            exchange.gateway.loop.call_later(_DRAIN_LOOK_SECONDS, self._splice_body)
            return
        transfer = splice.Splice(
            exchange.gateway.loop,
            client.plain_socket,
            connection.transport.get_extra_info("socket"),
            intake.left - HELD_BACK_BYTES,
            self._body_spliced,
            self._body_splice_ended,
        )
        if not transfer.closed:
            self._splice = transfer

    def _body_spliced(self, count: int) -> None:
        assert self._exchange.intake is not None
        self._exchange.intake.bypassed(count)
        if count:
            self._exchange.touch_deadline()

    def _body_splice_ended(self, error: OSError | None) -> None:
        self._splice = None
        if error is None:
            self._exchange.receive()
        else:
            self._exchange.cut_off()

    def body(self, payload: bytes, *, complete: bool) -> None:
        """A piece of the body. The end of it is held back until all of it is here."""
        connection, intake = self._connection, self._exchange.intake
        if connection is None or self.reply is not None:
            return  # the backend has answered already and reads no more
        assert intake is not None
        piece = chunk(payload) if self._request.is_chunked else payload
        if complete:
            self._held_back.append(piece)
            self._last_bytes = b"".join(self._held_back)
            self._held_back = []
            self._commit()
        elif intake.payload_length is not None and intake.payload_length - intake.payload_bytes < HELD_BACK_BYTES:
            self._held_back.append(piece)
        elif piece:
            connection.write(self._started() + piece)
            self._splice_if_worthwhile()

    def _started(self) -> bytes:
        """The head and what goes before the body, with the first bytes that are sent; then nothing."""
        if not self._starts:
            return b""
        self._starts = False
        return self._request.head(self._exchange.admitted.pool) + self._request.start

    def _splice_if_worthwhile(self) -> None:
        intake, client = self._exchange.intake, self._exchange.client
        if client is None or client.plain_socket is None or intake is None or not intake.bypassable:
            return
        if intake.left - HELD_BACK_BYTES >= splice.SMALLEST:
            self._exchange.receiving = False
            client.pause(True)
            self._exchange.gateway.loop.call_soon(self._splice_body)

    def _commit(self) -> None:
        if self._exchange.takes_turn(self._complete):
            self._complete()

    def _complete(self) -> None:
        if self._connection is None:
            return
        try:
            self._exchange.open_intent()
        except Unavailable as error:
            self._exchange.backend_failed(error)
            return
        end = LAST_CHUNK if self._request.is_chunked else self._request.end
        self._connection.write(self._started() + self._last_bytes + end)
        self.sent = True
        self._exchange.wait(self._exchange.gateway.settings.gateway.backend_seconds)

    def backend_writable(self, writable: bool) -> None:
        """Lets the client go on only if its bytes are wanted here: those that are to be spliced stay in its socket."""
        exchange = self._exchange
        if exchange.client is not None and (exchange.receiving or not writable):
            exchange.client.pause(not writable)

    # --- from the backend ------------------------------------------------------------------------

    def response_started(self, head: ResponseHead) -> None:
        self.reply = head
        exchange = self._exchange
        exchange.status = head.status
        if head.length is None and not head.chunked and exchange.client is not None:
            exchange.client.close_after_reply()  # nothing else tells the client where the reply ends
        if not self.sent:
            self._stop_body()
        elif exchange.admitted.operation.events is not None and 200 <= head.status < 300:
            self._withhold(self._changed)
            return
        if head.status >= 500 and head.status != 501:
            # A backend that stops, or has trouble: whatever it says, the client can only try again.
            exchange.backend_failed(f"the backend answered with status {head.status}")
            return
        exchange.settle()  # the backend has refused the change
        exchange.give_turns_back()
        exchange.touch_deadline()
        if self.sent and self._is_looked_into(head):
            return
        client = exchange.client
        if client is not None:
            self._splice_reply = (
                client.plain_socket is not None and head.length is not None and head.length >= splice.SMALLEST
            )
            # It goes out together with the first bytes of the body.
            self._unsent_head = self._reply_head(head, keep_alive=client.keeps_alive)

    def _is_looked_into(self, head: ResponseHead) -> bool:
        """Whether the client does not get this reply as it is; then it is withheld."""
        operation = self._exchange.admitted.operation
        if head.status == 404 and operation.missing is not None:
            look = operation.missing(self._exchange, head)
            if look is not None:
                self._withhold(lambda: self._exchange.spawn(self._look_into(look)))
                return True
        if head.status == 200 and operation.reply_body is not None:
            self._withhold(self._release)
            return True
        return False

    def _withhold(self, ended: Callable[[], None]) -> None:
        """The reply is kept until it has ended."""
        self._withheld = []
        self._ended = ended

    def _changed(self) -> None:
        assert self.reply is not None
        self._exchange.changed(self.reply, whole_body(self.reply, self._withheld or []))

    async def _look_into(self, look: Callable[[], Awaitable[S3Error | None]]) -> None:
        error = await look()
        if error is not None:
            raise error
        self._release()

    def _release(self) -> None:
        try:
            self.release_reply()
        except TidegateError as error:
            self._exchange.backend_failed(error)
            return
        self._exchange.finish()

    def _stop_body(self) -> None:
        """The backend has made up its mind before it saw the whole request."""
        self._exchange.receiving = False
        self._drop_splice()
        if self._exchange.client is not None:
            self._exchange.client.close_after_reply()

    def _reply_head(self, head: ResponseHead, *, keep_alive: bool, length: int | None = None) -> bytes:
        """`length` is that of a body which was written anew."""
        exchange = self._exchange
        dechunk = head.chunked and not exchange.head.is_1_1 and length is None
        added = b""
        more = exchange.admitted.operation.reply_headers
        if more is not None:
            added = more(exchange, head)
        cors = exchange.cors
        if keep_alive and not dechunk and not added and not cors and head.is_plain and length is None:
            return head.raw
        unwanted = {b"connection", b"keep-alive"}
        if dechunk:
            self._dechunk = ChunkedDecoder(response=True)
            unwanted.add(b"transfer-encoding")
        if length is not None:
            unwanted.update((b"content-length", b"transfer-encoding"))
        lines = [line for line in head.raw[:-4].split(b"\r\n") if not _is_unwanted(line, unwanted)]
        lines += [f"{name}: {value}".encode("latin-1") for name, value in cors.items()]
        if length is not None:
            lines.append(b"Content-Length: %d" % length)
        if added:
            lines.append(added)
        if not keep_alive:
            lines.append(b"Connection: close")
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def response_data(self, data: bytes) -> None:
        if self._withheld is not None:
            self._withheld.append(data)
            self._withheld_bytes += len(data)
            if self._withheld_bytes > _LONGEST_WITHHELD_REPLY:
                self.backend_failed(Unavailable("the backend's reply is too long"))
            return
        exchange, connection = self._exchange, self._connection
        client = exchange.client
        if client is None or connection is None:
            return
        if self._dechunk is not None:
            data = self._dechunk.feed(data)
        exchange.sent_bytes += len(data)
        if self._unsent_head:
            data, self._unsent_head = self._unsent_head + data, b""
        client.write(data)
        if self._splice_reply and connection.body_left >= splice.SMALLEST:
            connection.transport.pause_reading()
            self._splice_rest()
        elif client.write_paused:
            connection.transport.pause_reading()
        else:
            exchange.touch_deadline()

    def _splice_rest(self) -> None:
        connection, client = self._connection, self._exchange.client
        if connection is None or client is None or client.plain_socket is None:
            return
        if client.write_buffer_size:
            self._exchange.gateway.loop.call_later(_DRAIN_LOOK_SECONDS, self._splice_rest)
            return
        self._splice_reply = False
        transfer = splice.Splice(
            self._exchange.gateway.loop,
            connection.transport.get_extra_info("socket"),
            client.plain_socket,
            connection.body_left,
            self._reply_spliced,
            self._reply_splice_ended,
        )
        if not transfer.closed:
            self._splice = transfer

    def _reply_spliced(self, count: int) -> None:
        self._exchange.sent_bytes += count
        if count:
            self._exchange.touch_deadline()

    def _reply_splice_ended(self, error: OSError | None) -> None:
        self._splice = None
        connection = self._connection
        if connection is None:
            return
        if error is not None:
            self._exchange.cut_off()
        else:
            connection.transport.resume_reading()
            connection.body_bypassed()

    def client_writable(self) -> None:
        if self._connection is not None and self._splice is None and not self._splice_reply:
            self._connection.transport.resume_reading()

    def response_ended(self) -> None:
        connection, self._connection = self._connection, None
        if not self.sent and connection is not None:
            connection.transport.abort()  # it still expects the rest of a body that will not come
        if self._withheld is None:
            if self._unsent_head and self._exchange.client is not None:
                self._exchange.client.write(self._unsent_head)
            self._exchange.finish()
            return
        assert self._ended is not None
        self._ended()

    def release_reply(self) -> None:
        """The withheld reply may go to the client now."""
        assert self.reply is not None
        exchange = self._exchange
        client = exchange.client
        if client is None:
            return
        rewrite = exchange.admitted.operation.reply_body
        if rewrite is not None and self.reply.status == 200:
            body = rewrite(exchange, whole_body(self.reply, self._withheld or []))
            head = self._reply_head(self.reply, keep_alive=client.keeps_alive, length=len(body))
        else:
            body = b"".join(self._withheld or ())
            head = self._reply_head(self.reply, keep_alive=client.keeps_alive)
            if self._dechunk is not None:
                body = self._dechunk.feed(body)
        exchange.sent_bytes += len(body)
        client.write(head + body if body else head)

    def backend_failed(self, error: Exception) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.transport.is_closing():
            connection.abandon()
        exchange = self._exchange
        exchange.gateway.count_backend_error("broken")
        if self.reply is not None and self._withheld is None:
            exchange.cut_off()
        elif self._may_retry(connection):
            # An idle connection that the backend closed just now: nothing was lost but the connection.
            self._retried = True
            self._starts = True
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

    def nudge(self) -> bool:
        """Whether a spliced body goes on, be it slowly."""
        return self._splice is not None and self._splice.nudge()

    # --- the end ---------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Nobody waits any more. A backend that has not seen the whole request discards it."""
        self._drop_splice()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()

    def _drop_splice(self) -> None:
        if self._splice is not None:
            self._splice.abort()
            self._splice = None


def _is_unwanted(line: bytes, unwanted: set[bytes]) -> bool:
    name = line.partition(b":")[0].lower()
    return name in unwanted or name.startswith(b"access-control-")
