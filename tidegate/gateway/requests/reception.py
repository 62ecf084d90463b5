"""A request on its way in: its head admitted, its body received, then the work that answers it.

Everything that can be done at once is done in plain calls; only what has to wait becomes a task of the exchange.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.errors import Unavailable
from tidegate.core.s3errors import S3Error
from tidegate.gateway.operations.form_upload import upload_file
from tidegate.gateway.placements.conditions import check_conditions
from tidegate.gateway.requests import bodies
from tidegate.gateway.requests.admission import Admission, admit
from tidegate.gateway.requests.browsers import ORIGIN, cors_headers
from tidegate.gateway.requests.directory import Missing
from tidegate.gateway.requests.form_intake import FormIntake
from tidegate.gateway.requests.forwarding import CONDITIONS_OF_WRITES
from tidegate.gateway.requests.intake import Intake
from tidegate.gateway.requests.transfer import Transfer

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange

_WHOLE_BODY_BYTES = 64 * 1024  # a request up to this size is received before it is sent on


def start(exchange: Exchange) -> None:
    """The head is here."""
    try:
        admission = _admit(exchange)
    except Missing as missing:
        exchange.spawn(_admit_after_loading(exchange, missing))
    except S3Error as error:
        exchange.refuse(error)
    else:
        _admitted(exchange, admission)


def _admit(exchange: Exchange) -> Admission:
    directory, settings = exchange.gateway.directory, exchange.gateway.settings.gateway
    if ORIGIN in exchange.head.headers:
        exchange.cors = cors_headers(exchange.head, directory, settings)
    return admit(exchange.head, directory, settings, time.time())


async def _admit_after_loading(exchange: Exchange, missing: Missing) -> None:
    while True:
        await exchange.gateway.directory.load(missing)
        try:
            admission = _admit(exchange)
        except Missing as another:
            missing = another
        else:
            _admitted(exchange, admission)
            return


def _admitted(exchange: Exchange, admission: Admission) -> None:
    exchange.admission = admission
    head, operation = exchange.head, admission.operation
    if admission.has_placements and operation.settles and not CONDITIONS_OF_WRITES.isdisjoint(admission.headers):
        admission.before_commit = partial(check_conditions, exchange)
    try:
        exchange.gateway.check_writable(admission, head.content_length)
        intake = exchange.intake = bodies.intake(admission)
        if intake is None or not (head.chunked or head.content_length):
            if intake is not None:
                intake.end()
            _encourage(exchange)  # some clients wait for it, though there is nothing to send
            _whole_body_received(exchange)
            return
    except S3Error as error:
        exchange.refuse(error)
        return
    except Unavailable as error:
        exchange.backend_failed(error)
        return
    _encourage(exchange)
    exchange.touch_deadline()
    if operation.prepare is not None:
        exchange.spawn(_take_in_prepared(exchange, admission))
    else:
        _take_in(exchange)


async def _take_in_prepared(exchange: Exchange, admission: Admission) -> None:
    assert admission.operation.prepare is not None
    await admission.operation.prepare(exchange, admission)
    if not exchange.finished:
        _take_in(exchange)


def _take_in(exchange: Exchange) -> None:
    assert exchange.intake is not None
    if exchange.admitted.operation.is_form or _is_held_whole(exchange, exchange.intake):
        exchange.receive()
    else:
        exchange.stream(b"")


def _is_held_whole(exchange: Exchange, intake: Intake) -> bool:
    """Whether the body is received before any of it is sent on: documents, and small objects."""
    body = exchange.admitted.operation.body
    if body is not None and body.limit is not None:
        return True
    return not exchange.head.chunked and intake.left <= _WHOLE_BODY_BYTES


def _encourage(exchange: Exchange) -> None:
    if exchange.client is not None and exchange.head.is_1_1 and b"expect" in exchange.head.headers:
        exchange.client.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def take_body(exchange: Exchange, data: bytes) -> bytes:
    """Takes what belongs to this request and returns what does not."""
    intake = exchange.intake
    assert intake is not None
    try:
        payload, rest = intake.take(data)
    except S3Error as error:
        if exchange.client is not None:  # where a body is broken, nothing after it can be trusted
            exchange.client.close_after_reply()
        exchange.refuse(error)
        return b""
    exchange.touch_deadline()
    if intake.complete:
        exchange.receiving = False
        if intake.excess and exchange.client is not None:
            exchange.client.close_after_reply()
    if isinstance(exchange.transfer, Transfer):
        exchange.transfer.body(payload, complete=intake.complete)
    elif not isinstance(intake, FormIntake):
        _keep(exchange, payload, intake)
    elif intake.form.has_file:
        exchange.receiving = False
        exchange.spawn(upload_file(exchange, intake))
    return rest


def _keep(exchange: Exchange, payload: bytes, intake: Intake) -> None:
    exchange.body.append(payload)
    body = exchange.admitted.operation.body
    if body is not None and body.limit is not None and intake.payload_bytes > body.limit:
        exchange.refuse(S3Error("MaxMessageLengthExceeded", closes=True))
    elif intake.complete:
        _whole_body_received(exchange)


def _whole_body_received(exchange: Exchange) -> None:
    admission = exchange.admitted
    operation = admission.operation
    if operation.body is not None and operation.body.read is not None:
        try:
            exchange.parsed = operation.body.read(b"".join(exchange.body))
        except S3Error as error:
            exchange.refuse(error)
            return
    if operation.placed is not None and (admission.has_placements or admission.source_has_placements):
        exchange.spawn(operation.placed(exchange, admission))
        return
    work = operation.handler(exchange, admission) if operation.handler is not None else None
    if work is not None:
        exchange.spawn(work)
    else:
        exchange.forward()
