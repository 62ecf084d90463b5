"""CopyObject and UploadPartCopy from a moved source: its data goes through the gateway to the store.

Elsewhere a store copies by itself. The data is never held whole; the last bytes wait until the key is locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from tidegate.core.conditional_reads import Span, copied_span, is_not_modified
from tidegate.core.errors import Unavailable
from tidegate.core.events import Event, EventKind, Pairs
from tidegate.core.operations import METADATA
from tidegate.core.placements import Placement
from tidegate.core.replication.replicas import is_replica
from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4.canonical import Pair
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, element, iso_time
from tidegate.gateway.changes import event_builder
from tidegate.gateway.http.backend import BackendConnection, Reply, whole_body
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.placements import records
from tidegate.gateway.placements.moving_back import DESCRIBED
from tidegate.gateway.placements.settling import may_have_placements, settle_change
from tidegate.gateway.placements.sources import source_of
from tidegate.gateway.requests.forwarding import encoded_query, object_path, request_head

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_XML = {"Content-Type": "application/xml"}
_CONDITION = b"x-amz-copy-source-"
_RANGE = b"x-amz-copy-source-range"
_METADATA_DIRECTIVE, _TAGGING_DIRECTIVE = b"x-amz-metadata-directive", b"x-amz-tagging-directive"
_HELD_BACK_BYTES = 16 * 1024
_LARGEST_QUEUE_BYTES = 1 << 20


async def copy(exchange: Exchange, admission: Admission) -> None:
    """A copy whose source, or whose target, may have been moved."""
    source = admission.copy_source
    assert source is not None
    record = await records.find(exchange.gateway, source.bucket, source.key, source.version_id)
    if record is None:
        await exchange.proceed()
        return
    is_not_modified(admission.head.headers, record.etag, record.last_modified, prefix=_CONDITION)
    is_part = admission.operation.uploads_part
    if is_part:
        span = copied_span(admission.head.headers.get(_RANGE), record.size)
        headers: list[Pair] = []
    else:
        _check_target(admission)
        span = Span(0, record.size)
        headers = _description(admission, record)
    reply = await _Copy(exchange, admission, record, span, headers).run()
    if reply.head.status != 200:
        raise _refusal(reply)
    if not is_part:
        await _log(exchange, admission, record, reply)
    _answer(exchange, admission, record, reply)


def _check_target(admission: Admission) -> None:
    """As S3 has it: an object cannot be copied onto itself unless that changes something."""
    source = admission.copy_source
    assert source is not None
    is_itself = (source.bucket, source.key) == (admission.bucket_name, admission.object_key) and not source.version_id
    replaces = admission.headers.get(_METADATA_DIRECTIVE, b"").upper() == b"REPLACE"
    if is_itself and not replaces and b"x-amz-storage-class" not in admission.headers:
        raise S3Error(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing the "
            "object's metadata, storage class, website redirect location or encryption attributes.",
        )


def _description(admission: Admission, record: Placement) -> list[Pair]:
    """The headers of the new object: the request's, or the source's."""
    given = admission.headers
    if given.get(_METADATA_DIRECTIVE, b"COPY").upper() == b"REPLACE":
        own = given
    else:
        own = {name.lower().encode(): value.encode("latin-1") for name, value in record.headers}
    headers = [(name, value.strip()) for name, value in own.items() if name in DESCRIBED or name.startswith(METADATA)]
    if b"x-amz-storage-class" in given:
        headers.append((b"x-amz-storage-class", given[b"x-amz-storage-class"].strip()))
    tags = _tags(admission, record)
    if tags:
        headers.append((b"x-amz-tagging", urlencode(tags).encode()))
    return headers


def _tags(admission: Admission, record: Placement) -> Pairs:
    if admission.headers.get(_TAGGING_DIRECTIVE, b"COPY").upper() == b"REPLACE":
        return tuple(parse_qsl(urlencode(admission.tags), keep_blank_values=True))
    return record.tags


class _Data:
    """The data of the source, as it comes in. It is the `Receiver` of what the location answers."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._waiting_bytes = 0
        self.connection: BackendConnection | None = None

    def response_started(self, head: ResponseHead) -> None:
        if head.status != 206 or head.length != self._span.length:
            self._pieces.put_nowait(Unavailable(f"the source of the copy answered with status {head.status}"))

    def response_data(self, data: bytes) -> None:
        self._pieces.put_nowait(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _LARGEST_QUEUE_BYTES and self.connection is not None:
            self.connection.transport.pause_reading()

    def response_ended(self) -> None:
        self.connection = None
        self._pieces.put_nowait(None)

    def backend_failed(self, error: Exception) -> None:
        self.connection = None
        self._pieces.put_nowait(Unavailable(f"the source of the copy failed: {error}"))

    def backend_writable(self, writable: bool) -> None:
        return

    async def pieces(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            self._waiting_bytes -= len(piece)
            if self._waiting_bytes <= _LARGEST_QUEUE_BYTES and self.connection is not None:
                self.connection.transport.resume_reading()
            yield piece

    def abandon(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.abandon()


class _Target:
    """The store's side: takes the data at its own pace, and answers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answered: asyncio.Future[Reply] = loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._head: ResponseHead | None = None
        self._parts: list[bytes] = []

    def response_started(self, head: ResponseHead) -> None:
        self._head = head

    def response_data(self, data: bytes) -> None:
        self._parts.append(data)

    def response_ended(self) -> None:
        if self._head is not None and not self.answered.done():
            self.answered.set_result(Reply(self._head, whole_body(self._head, self._parts)))

    def backend_failed(self, error: Exception) -> None:
        self._writable.set()
        if not self.answered.done():
            self.answered.set_exception(Unavailable(f"the backend failed: {error}"))

    def backend_writable(self, writable: bool) -> None:
        if writable:
            self._writable.set()
        else:
            self._writable.clear()

    async def ready(self) -> None:
        await self._writable.wait()
        if self.answered.done():
            self.answered.result()
            raise Unavailable("the backend answered before it had all of a copy")


class _Copy:
    def __init__(
        self, exchange: Exchange, admission: Admission, record: Placement, span: Span, headers: list[Pair]
    ) -> None:
        self._exchange = exchange
        self._admission = admission
        self._record = record
        self._span = span
        self._headers = headers

    async def run(self) -> Reply:
        exchange, admission = self._exchange, self._admission
        data = _Data(self._span)
        target = _Target(exchange.gateway.loop)
        if self._span.length:
            pool, request = await source_of(exchange, self._record, self._span)
            data.connection = pool.take_idle() or await pool.connect()
            data.connection.begin(data, head_request=False)
            data.connection.write(request)
        else:
            data.response_ended()
        try:
            connection, admission.pool = await exchange.gateway.backends.connect(admission.pool)
            connection.begin(target, head_request=False)
            try:
                return await self._send(data, target, connection)
            except BaseException:
                connection.abandon()
                raise
        finally:
            data.abandon()

    async def _send(self, data: _Data, target: _Target, connection: BackendConnection) -> Reply:
        """The head goes out with the first bytes. The last ones wait until the key is locked."""
        exchange, admission, view = self._exchange, self._admission, self._admission.pool
        query = encoded_query(admission.parameters.items())
        path = object_path(admission.bucket_name, admission.object_key)
        framing = b"content-length: %d\r\n" % self._span.length
        unsent = request_head(view, b"PUT", path, query, self._headers, framing=framing)
        held = b""
        async for piece in data.pieces():
            exchange.touch_deadline()
            held += piece
            if len(held) > 2 * _HELD_BACK_BYTES:
                await target.ready()
                connection.write(unsent + held[:-_HELD_BACK_BYTES])
                unsent, held = b"", held[-_HELD_BACK_BYTES:]
        await target.ready()
        if admission.operation.logs_events:
            if not exchange.change.is_locked:
                await exchange.change.lock([admission.object_key])
            if admission.before_commit is not None:
                await admission.before_commit()
            exchange.change.open_intent(admission)
        connection.write(unsent + held)
        exchange.wait(exchange.gateway.settings.gateway.backend_seconds)
        return await target.answered


async def _log(exchange: Exchange, admission: Admission, record: Placement, reply: Reply) -> None:
    if may_have_placements(exchange):
        await settle_change(exchange)
    event: Event = event_builder.event(
        exchange,
        EventKind.PUT,
        version_id=_header(reply, b"x-amz-version-id"),
        etag=_header(reply, b"etag").strip('"'),
        size=record.size,
        tags=_tags(admission, record),
        storage_class=admission.headers.get(b"x-amz-storage-class", b"").decode("latin-1") or "STANDARD",
        is_replica=is_replica(admission.headers),
    )
    exchange.made = event
    exchange.change.unlock()
    await exchange.change.log([event])
    exchange.change.close_intent()


def _answer(exchange: Exchange, admission: Admission, record: Placement, reply: Reply) -> None:
    root = "CopyPartResult" if admission.operation.uploads_part else "CopyObjectResult"
    now = exchange.made.ts_ns / 1e9 if exchange.made is not None else record.last_modified
    body = f"{element('LastModified', iso_time(now))}{element('ETag', _header(reply, b'etag'))}"
    headers = dict(_XML)
    version_id = _header(reply, b"x-amz-version-id")
    if version_id:
        headers["x-amz-version-id"] = version_id
    if admission.has_versions and admission.copy_source is not None:
        headers["x-amz-copy-source-version-id"] = record.version_id
    exchange.answer(200, headers, f'{DECLARATION}<{root} xmlns="{NAMESPACE}">{body}</{root}>'.encode())


def _header(reply: Reply, name: bytes) -> str:
    return reply.head.headers.get(name, b"").decode("latin-1")


def _refusal(reply: Reply) -> Exception:
    if reply.head.status == 404:
        return S3Error("NoSuchUpload")
    return Unavailable(f"the backend does not take a copy ({reply.head.status})")
