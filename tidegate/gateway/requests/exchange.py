"""One request and its reply: admitted, taken in, forwarded, journalled, answered.

Everything that can be done at once is done in plain calls; only what has to wait (an entry to load, a
pool to wake, a connection, a turn) becomes a task.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.events import Event, Pairs
from tidegate.core.s3errors import S3Error, error_xml
from tidegate.gateway.changes.intents import Intent
from tidegate.gateway.changes.key_locks import stripe_of
from tidegate.gateway.changes.log_writer import append_events, journalled
from tidegate.gateway.http.http1 import RequestHead, ResponseHead
from tidegate.gateway.operations.form_upload import upload_file
from tidegate.gateway.requests import bodies
from tidegate.gateway.requests.admission import Admission, admit
from tidegate.gateway.requests.browsers import ORIGIN, cors_headers
from tidegate.gateway.requests.directory import Missing
from tidegate.gateway.requests.form_intake import FormIntake
from tidegate.gateway.requests.forwarding import ForwardedRequest
from tidegate.gateway.requests.intake import Intake
from tidegate.gateway.requests.transfer import Transfer

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.http.connection import ClientConnection

logger = logging.getLogger(__name__)

_WHOLE_BODY_BYTES = 64 * 1024  # a request up to this size is received before it is sent on
_CLIENT_WENT_AWAY = 499  # for the log only; nobody is left to see it


class Exchange:
    __slots__ = (
        "_body",
        "_intents",
        "_stripes",
        "_task",
        "_transfer",
        "_unsent",
        "admission",
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
        "sent_bytes",
        "started",
        "status",
        "tags",
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
        self.parsed: Any = ()
        self.receiving = False
        self.finished = False
        self.status = 0
        self.error_code = ""
        self.tags: Pairs = ()
        self.made: Event | None = None
        self.noted: Any = None
        self.sent_bytes = 0
        self._body: list[bytes] = []
        self._intents: frozenset[int] = frozenset()
        self._stripes: frozenset[int] = frozenset()
        self._task: asyncio.Task[None] | None = None
        self._transfer: Transfer | None = None
        self._unsent: int | None = None

    # --- admission -------------------------------------------------------------------------------

    def start(self) -> None:
        try:
            admission = self._admit()
        except Missing as missing:
            self.spawn(self._admit_after_loading(missing))
        except S3Error as error:
            self.refuse(error)
        else:
            self._admitted(admission)

    def _admit(self) -> Admission:
        directory, settings = self.gateway.directory, self.gateway.settings.gateway
        if ORIGIN in self.head.headers:
            self.cors = cors_headers(self.head, directory, settings)
        return admit(self.head, directory, settings, time.time())

    async def _admit_after_loading(self, missing: Missing) -> None:
        while True:
            await self.gateway.directory.load(missing)
            try:
                admission = self._admit()
            except Missing as another:
                missing = another
            else:
                self._admitted(admission)
                return

    @property
    def admitted(self) -> Admission:
        assert self.admission is not None
        return self.admission

    def _admitted(self, admission: Admission) -> None:
        self.admission = admission
        head = self.head
        try:
            self.gateway.check_writable(admission, head.content_length)
            intake = self.intake = bodies.intake(admission)
            if intake is None or not (head.chunked or head.content_length):
                if intake is not None:
                    intake.end()
                self._encourage()  # some clients wait for it, though there is nothing to send
                self._whole_body_received()
                return
        except S3Error as error:
            self.refuse(error)
            return
        except Unavailable as error:
            self.backend_failed(error)
            return
        self._encourage()
        self.touch_deadline()
        if admission.operation.is_form or self._is_held_whole(intake):
            self.receive()
        else:
            self.stream(b"")

    def _is_held_whole(self, intake: Intake) -> bool:
        """Whether the body is received before any of it is sent on: documents, and small objects."""
        body = self.admitted.operation.body
        if body is not None and body.limit is not None:
            return True
        return not self.head.chunked and intake.left <= _WHOLE_BODY_BYTES

    def _encourage(self) -> None:
        if self.client is not None and self.head.is_1_1 and b"expect" in self.head.headers:
            self.client.write(b"HTTP/1.1 100 Continue\r\n\r\n")

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
        except asyncio.CancelledError:
            self.give_turns_back()
            raise
        except Exception:
            logger.exception("request %s failed", self.request_id)
            self.refuse(S3Error("InternalError", closes=True))

    # --- the request -----------------------------------------------------------------------------

    def stream(self, start: bytes) -> None:
        """Sends the request to the backend while its body, which has this start, comes in."""
        intake = self.intake
        assert intake is not None
        transfer = self._transfer = Transfer(self, ForwardedRequest(self.admitted, intake))
        self._body = [start] if start else []

        def connected() -> None:
            self.touch_deadline()
            if intake.complete:
                transfer.body(start, complete=True)
            else:
                self.receive()

        transfer.stream(connected)

    def receive(self) -> None:
        """From here on the client's bytes come to `body_data`."""
        self.receiving = True
        if self.client is not None:
            self.client.body_wanted()

    def body_data(self, data: bytes) -> bytes:
        """Takes what belongs to this request and returns what does not."""
        intake = self.intake
        assert intake is not None
        try:
            payload, rest = intake.take(data)
        except S3Error as error:
            if self.client is not None:  # where a body is broken, nothing after it can be trusted
                self.client.close_after_reply()
            self.refuse(error)
            return b""
        self.touch_deadline()
        if intake.complete:
            self.receiving = False
            if intake.excess and self.client is not None:
                self.client.close_after_reply()
        if self._transfer is not None:
            if self._body:  # the start of the body, which goes out with what follows it
                payload, self._body = b"".join([*self._body, payload]), []
            self._transfer.body(payload, complete=intake.complete)
        elif not isinstance(intake, FormIntake):
            self._keep(payload, intake)
        elif intake.form.has_file:
            self.receiving = False
            self.spawn(upload_file(self, intake))
        return rest

    def _keep(self, payload: bytes, intake: Intake) -> None:
        self._body.append(payload)
        body = self.admitted.operation.body
        if body is not None and body.limit is not None and intake.payload_bytes > body.limit:
            self.refuse(S3Error("MaxMessageLengthExceeded", closes=True))
        elif intake.complete:
            self._whole_body_received()

    def _whole_body_received(self) -> None:
        admission = self.admitted
        operation = admission.operation
        if operation.body is not None and operation.body.read is not None:
            try:
                self.parsed = operation.body.read(b"".join(self._body))
            except S3Error as error:
                self.refuse(error)
                return
        work = operation.handler(self, admission) if operation.handler is not None else None
        if work is not None:
            self.spawn(work)
        else:
            self.forward()

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
        request = ForwardedRequest(self.admitted, self.intake, document)
        self._transfer = Transfer(self, request)
        self._transfer.send(b"".join(self._body) if document is None else document)

    @property
    def request_consumed(self) -> bool:
        """Whether nothing of this request is still on its way."""
        if self.intake is None:
            return not self.head.chunked and self.head.content_length == 0
        return self.intake.complete

    # --- turns and the log -----------------------------------------------------------------------

    def takes_turn(self, then: Callable[[], None]) -> bool:
        """True when a change may be made now, or this is none; otherwise `then` is called when its turn has come."""
        admission = self.admitted
        if not admission.operation.journals or self._stripes:
            return True
        stripe = stripe_of(admission.bucket_name, admission.object_key)
        if self.gateway.order.try_acquire(stripe):
            self._stripes = frozenset((stripe,))
            return True
        self.spawn(self._wait_for_turn(stripe, then))
        return False

    async def _wait_for_turn(self, stripe: int, then: Callable[[], None]) -> None:
        await self.gateway.order.acquire(stripe)
        self._stripes = frozenset((stripe,))
        if self.finished:
            self.give_turns_back()
        else:
            then()

    async def take_turns(self, keys: list[str]) -> list[int]:
        """The turns taken, for an exchange that gives some of its turns back before others."""
        bucket = self.admitted.bucket_name
        taken = await self.gateway.order.acquire_all(stripe_of(bucket, key) for key in keys)
        self._stripes = self._stripes.union(taken)
        return taken

    def give_turns_back(self, taken: Iterable[int] | None = None) -> None:
        """Those taken or all, but none twice."""
        if self._stripes:
            stripes = self._stripes.intersection(taken) if taken is not None else self._stripes
            self._stripes = self._stripes - stripes
            self.gateway.order.release_all(stripes)

    def open_intent(self, changes: Iterable[tuple[str, str]] = ()) -> int:
        """Called before anything goes out that may make the change; `changes` are keys with version ids. Gives the
        number to `settle` it with, for an exchange that makes several."""
        admission = self.admitted
        if not admission.operation.journals:
            return 0
        found = tuple(changes) or ((admission.object_key, admission.version_id),)
        view, upload_id = admission.pool, admission.upload_id
        intent = Intent(time.time(), view.pool.name, admission.bucket_name, found, upload_id, view.manager_token)
        number = self.gateway.note_down(admission, intent)
        self._intents = self._intents | {number}
        return number

    def settle(self, number: int = 0) -> None:
        """The change (without a number: each) is in the log, or was certainly not made."""
        settled = self._intents & {number} if number else self._intents
        self._intents = self._intents - settled
        for each in settled:
            self.gateway.intents.end(each)

    def event_time(self, key: str) -> int:
        """The time of a change to a key whose turn this exchange has."""
        return self.gateway.order.next_time(stripe_of(self.admitted.bucket_name, key), time.time_ns())

    def changed(self, reply: ResponseHead, body: bytes) -> None:
        """The backend has made the change; the client learns of it when the log has it."""
        build = self.admitted.operation.events
        assert build is not None
        try:
            events = build(self, self.admitted, reply, body)
        except S3Error as error:
            self.refuse(error)
            return
        except TidegateError as error:
            self.backend_failed(error)
            return
        if isinstance(events, list):
            self._journal(events, self._journalled)
        else:
            self.spawn(self._journal_later(events))

    async def _journal_later(self, events: Awaitable[list[Event]]) -> None:
        self._journal(await events, self._journalled)

    def _journal(self, events: list[Event], done: Callable[[TidegateError | None], None]) -> None:
        """Hands the events over and gives the keys' turns back: later changes have later times."""
        self.wait(self.gateway.patience_seconds)
        self.made = events[0] if events else None
        append_events(self.gateway.journal, events, done)
        self.give_turns_back()

    async def journalled(self, events: list[Event]) -> None:
        """The same for tasks: returns when the events are on stable storage."""
        self.give_turns_back()
        await journalled(self.gateway, events)
        self.settle()

    def _journalled(self, failure: TidegateError | None) -> None:
        if failure is not None:
            self.backend_failed(failure)
            return
        self.settle()
        transfer, reply = self._transfer, self.admitted.operation.reply
        if transfer is None:
            return  # the exchange has ended meanwhile: its client is gone
        if reply is not None:
            reply(self, transfer.reply)
        else:
            transfer.release_reply()
            self.finish()

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
            self.sent_bytes += len(body) if with_body else 0
        self.finish()

    def refuse(self, error: S3Error) -> None:
        if self.finished:
            return
        if self._transfer is not None:
            self._transfer.abandon()
        self.give_turns_back()
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
        transfer = self._transfer
        if transfer is not None and transfer.reply is not None:
            self.cut_off()
        elif transfer is not None and transfer.sent:
            self.gateway.count_backend_error("timeout")
            self.gateway.suspect(self.admitted.pool)
            self.backend_failed("the backend did not answer in time")
        elif self.request_consumed:
            self.backend_failed("the request could not be served in time")
        else:
            self.refuse(S3Error("RequestTimeout", closes=True))

    def _goes_on_slowly(self) -> bool:
        """Bytes that come or go little by little move too, though nobody is woken up for them."""
        transfer, client = self._transfer, self.client
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
        if self._transfer is not None:
            self._transfer.client_writable()

    def client_lost(self) -> None:
        """The client is gone. A change that the backend may have made already is still seen through."""
        self.client = None
        self.receiving = False
        if self._stripes and not self.finished:
            self.gateway.orphans.add(self)
            return
        if self._task is not None:
            self._task.cancel()
        if self._transfer is not None:
            self._transfer.abandon()
        self.status = self.status or _CLIENT_WENT_AWAY
        self.finish()

    def cut_off(self) -> None:
        """The exchange cannot be completed, and the client must not take what it has for the whole."""
        if self._transfer is not None:
            self._transfer.abandon()
        if self.client is not None:
            self.client.abort()
        self.status = self.status or _CLIENT_WENT_AWAY
        self.finish()

    def finish(self) -> None:
        if self.finished:
            return
        self.finished = True
        self.receiving = False
        self.give_turns_back()
        for number in self._intents:
            self.gateway.healer.doubt(number)
        self.gateway.exchange_ended(self)
        self._transfer = None  # which refers to this exchange: a circle would be left to the garbage collector
        client, self.client = self.client, None
        if client is not None:
            client.exchange_ended()
