"""One request and its reply, from the request's head to the line in the access log.

The exchange steers. `reception` takes the request in; then a handler of the operation's answers it, or a `Transfer`
forwards it. Each of them ends the exchange in one of four ways: `answer`, `refuse`, `backend_failed`, or, where a
backend's reply went to the client, `finish`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.events import Event, Pairs
from tidegate.core.s3errors import S3Error, error_xml
from tidegate.gateway.changes.change import Change
from tidegate.gateway.http.http1 import RequestHead
from tidegate.gateway.requests import reception
from tidegate.gateway.requests.admission import Admission
from tidegate.gateway.requests.forwarding import ForwardedRequest
from tidegate.gateway.requests.intake import Intake
from tidegate.gateway.requests.transfer import Transfer

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.http.connection import ClientConnection
    from tidegate.gateway.placements.cold_read import ColdRead

logger = logging.getLogger(__name__)

_CLIENT_WENT_AWAY = 499  # for the log only; nobody is left to see it


class Exchange:
    __slots__ = (
        "_changes",
        "_own_bytes",
        "_task",
        "_unsent",
        "admission",
        "body",
        "client",
        "cors",
        "deadline",
        "error_code",
        "finished",
        "gateway",
        "head",
        "intake",
        "made",
        "noted",
        "parsed",
        "peer",
        "receiving",
        "request_id",
        "started",
        "status",
        "stub_looks",
        "tags",
        "transfer",
    )

    def __init__(self, gateway: Gateway, client: ClientConnection, head: RequestHead) -> None:
        self.gateway = gateway
        self.client: ClientConnection | None = client
        self.peer = client.peer
        self.head = head
        self.request_id = gateway.next_request_id()
        self.started = gateway.loop.time()
        self.deadline = self.started + gateway.patience_seconds
        self.admission: Admission | None = None
        self.cors: dict[str, str] = {}
        self.intake: Intake | None = None
        self.body: list[bytes] = []
        self.parsed: Any = ()
        self.receiving = False
        self.finished = False
        self.status = 0
        self.stub_looks = 0
        self.error_code = ""
        self.tags: Pairs = ()
        self.made: Event | None = None
        self.noted: Any = None
        self.transfer: Transfer | ColdRead | None = None
        self._changes: tuple[Change, ...] = ()
        self._own_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._unsent: int | None = None

    # --- the request -----------------------------------------------------------------------------

    def start(self) -> None:
        reception.start(self)

    @property
    def admitted(self) -> Admission:
        assert self.admission is not None
        return self.admission

    def receive(self) -> None:
        """From here on the client's bytes come to `body_data`."""
        self.receiving = True
        if self.client is not None:
            self.client.body_wanted()

    def hold_client(self) -> None:
        """The client's next bytes stay in its socket, to be spliced."""
        self.receiving = False
        if self.client is not None:
            self.client.pause(True)

    def body_data(self, data: bytes) -> bytes:
        """Takes what belongs to this request and returns what does not."""
        return reception.take_body(self, data)

    @property
    def request_consumed(self) -> bool:
        """Whether nothing of this request is still on its way."""
        if self.intake is None:
            return not self.head.chunked and self.head.content_length == 0
        return self.intake.complete

    # --- the work --------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on in a task, whose errors become replies."""
        self.wait(self.gateway.patience_seconds)
        self._task = self.gateway.loop.create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except S3Error as error:
            self.refuse(error)
        except TidegateError as error:
            self.backend_failed(error)
        except Exception:
            logger.exception("request %s failed", self.request_id)
            self.refuse(S3Error("InternalError", closes=True))

    def stream(self, start: bytes) -> None:
        """Sends the request to the backend while its body, which has this start, comes in."""
        assert self.intake is not None
        self.transfer = Transfer(self, ForwardedRequest(self.admitted, self.intake))
        self.transfer.stream(start, self.intake)

    def forward(self) -> None:
        """Sends the request, whose body is at hand, to the backend. A document is written anew from what was read."""
        body = self.admitted.operation.body
        document = None
        if body is not None and body.write is not None:
            try:
                document = body.write(self.parsed)
            except S3Error as error:
                self.refuse(error)
                return
        self.transfer = Transfer(self, ForwardedRequest(self.admitted, self.intake, document))
        self.transfer.send(b"".join(self.body) if document is None else document)

    async def proceed(self) -> None:
        """Does what the operation does where nothing was moved."""
        handler = self.admitted.operation.handler
        work = handler(self, self.admitted) if handler is not None else None
        if work is not None:
            await work
        else:
            self.forward()

    @property
    def change(self) -> Change:
        """The change that this request makes, begun when it is first asked for."""
        return self._changes[0] if self._changes else self.begin_change()

    def begin_change(self) -> Change:
        """One of several changes that this request makes. It ends with the exchange, if not before."""
        if self.finished:
            raise Unavailable("the request has ended before its change began")
        change = Change(self.gateway, self.admitted.bucket_name)
        self._changes = (*self._changes, change)
        return change

    # --- the reply -------------------------------------------------------------------------------

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """The gateway's own reply."""
        if self.finished:
            return
        self.status = status
        client = self.client
        if client is not None:
            if not self.request_consumed:
                if self.intake is None and b"expect" in self.head.headers:
                    client.close_after_reply()  # the client may send the body that was not asked for, or not
                client.discard_body(self.intake.left if self.intake else self.head.content_length, self.head.chunked)
            with_body = self.head.method != b"HEAD" and status != 204
            headers = {**headers, **self.cors} if self.cors else headers
            client.write(self.gateway.own_reply(status, self.request_id, headers, body, client.keeps_alive, with_body))
            self._own_bytes += len(body) if with_body else 0
        self.finish()

    def refuse(self, error: S3Error) -> None:
        if self.finished:
            return
        if self.transfer is not None:
            self.transfer.abandon()
        self.error_code = error.code
        if self.client is not None and error.closes:
            self.client.close_after_reply()
        resource = self.head.path.decode("utf-8", "replace")
        body = error_xml(error, resource=resource, request_id=self.request_id)
        self.answer(error.status, {"Content-Type": "application/xml", **error.headers}, body)

    def backend_failed(self, why: Exception | str) -> None:
        """What is needed for the request is not there now."""
        if not self.finished:
            pool = self.admission.pool.pool.name if self.admission is not None else "-"
            logger.warning("request %s (pool %s) cannot be served: %s", self.request_id, pool, why)
        retry_after = max(1, round(getattr(why, "retry_after", None) or 1))
        self.refuse(S3Error("ServiceUnavailable", str(why), headers={"Retry-After": str(retry_after)}))

    @property
    def sent_bytes(self) -> int:
        """How much of a body the client was sent."""
        return self._own_bytes + (self.transfer.sent_bytes if self.transfer is not None else 0)

    # --- time, and the end -----------------------------------------------------------------------

    def touch_deadline(self) -> None:
        """Bytes have moved: the peer has `stall_seconds` for the next."""
        self.deadline = self.gateway.loop.time() + self.gateway.stall_seconds
        self._unsent = None

    def wait(self, seconds: float) -> None:
        self.deadline = self.gateway.loop.time() + seconds

    def timed_out(self) -> None:
        """The deadline has passed; who is to blame depends on how far the request is."""
        if self._goes_on_slowly() or self.finished:
            return
        transfer = self.transfer
        if transfer is not None and transfer.reply is not None:
            self.cut_off()
        elif transfer is not None and transfer.sent:
            self.gateway.count_backend_error("timeout")
            self.gateway.backends.suspect(self.admitted.pool)
            self.backend_failed("the backend did not answer in time")
        elif self.request_consumed:
            self.backend_failed("the request could not be served in time")
        else:
            self.refuse(S3Error("RequestTimeout", closes=True))

    def _goes_on_slowly(self) -> bool:
        """Bytes that come or go little by little move too, though nobody is woken up for them."""
        transfer, client = self.transfer, self.client
        if transfer is None or client is None:
            return False
        if transfer.nudge():
            return True
        if transfer.reply is None:
            return False
        unsent, before = client.unsent_bytes, self._unsent
        going = unsent > 0 and (before is None or unsent < before)
        if going:
            self.touch_deadline()
            self._unsent = unsent
        return going

    def client_writable(self) -> None:
        self.touch_deadline()
        if self.transfer is not None:
            self.transfer.client_writable()

    def client_lost(self) -> None:
        """The client is gone. A change that the backend may have made already is still seen through."""
        self.client = None
        self.receiving = False
        if not self.finished and any(change.is_locked for change in self._changes):
            self.gateway.orphans.add(self)
            return
        if self._task is not None:
            self._task.cancel()
        if self.transfer is not None:
            self.transfer.abandon()
        self.status = self.status or _CLIENT_WENT_AWAY
        self.finish()

    def cut_off(self) -> None:
        """The exchange cannot be completed, and the client must not take what it has for the whole."""
        if self.transfer is not None:
            self.transfer.abandon()
        if self.client is not None:
            self.client.abort()
        self.status = self.status or _CLIENT_WENT_AWAY
        self.finish()

    def finish(self) -> None:
        if self.finished:
            return
        self.finished = True
        self.receiving = False
        self._end_changes()
        self.gateway.exchange_ended(self)
        self.transfer = None  # which refers to this exchange: a circle would be left to the garbage collector
        client, self.client = self.client, None
        if client is not None:
            client.exchange_ended()

    def _end_changes(self) -> None:
        """A task that is still amid a change keeps its keys until it ends, or has had its time once more: without them
        it could undo what another request is told of."""
        task = self._task
        is_under_way = task is not None and not task.done() and task is not asyncio.current_task()
        kept = [change for change in self._changes if is_under_way and change.is_locked]
        for change in self._changes:
            if change not in kept:
                change.end()
        if task is not None and kept:
            ceiling = self.gateway.loop.call_later(self.gateway.patience_seconds, task.cancel)
            task.add_done_callback(lambda _: self._task_ended(ceiling))

    def _task_ended(self, ceiling: asyncio.TimerHandle) -> None:
        ceiling.cancel()
        for change in self._changes:
            change.end()
