"""Deletes: many in one request, and those that name what they mean."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.core import xml
from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.core.identities import needs_look
from tidegate.core.s3errors import S3Error
from tidegate.core.xml import Deleted, DeleteEntry, DeleteFailure
from tidegate.gateway.changes import event_builder
from tidegate.gateway.changes.preconditions import unchanged
from tidegate.gateway.http.backend import BackendGone, Reply
from tidegate.gateway.operations.delete_conditions import LOOKS, check_meant
from tidegate.gateway.placements.deleting import delete_moved, settle_deleted
from tidegate.gateway.requests.forwarding import ask_signed, object_path
from tidegate.gateway.requests.replies import repeat

if TYPE_CHECKING:
    from tidegate.gateway.changes.change import Change
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.directory import BucketView
    from tidegate.gateway.requests.exchange import Exchange

logger = logging.getLogger(__name__)

_XML = {"Content-Type": "application/xml"}
_BYPASS = b"x-amz-bypass-governance-retention"
# A part holds its keys' locks while the store works on it: a small one keeps few writers waiting, and rarely meets
# a part of another request that has one of its locks.
_PART = 250
# While one is looked at or logged, the store deletes the other.
_PARTS_AT_ONCE = 2


def delete_object(exchange: Exchange, admission: Admission) -> Coroutine[Any, Any, None] | None:
    """What is to be done before a single delete that names more than a backend compares by itself."""
    conditional = not LOOKS.isdisjoint(admission.head.headers)
    return _delete_one_if_same(exchange, admission) if conditional else None


async def _delete_one_if_same(exchange: Exchange, admission: Admission) -> None:
    """The identity is compared under the key's lock: no writer behind a gateway can come in between."""
    admission.pool = await exchange.gateway.backends.awake(admission.pool)
    if not exchange.change.is_locked:
        await exchange.change.lock([admission.object_key])
    await check_meant(exchange, admission)
    exchange.forward()


async def delete_objects(exchange: Exchange, admission: Admission) -> None:
    """Always asks the backend for the full report, since the log needs it; the client gets what it asked for.

    Every key gets an answer of its own once anything was deleted. Otherwise, like a change to one key, the request as a
    whole fails, with the answer of the backend or with what went wrong.
    """
    request: xml.DeleteRequest = exchange.parsed
    admission.pool = await exchange.gateway.backends.awake(admission.pool)
    storable, refused = _storable(admission, request.entries)
    deleting = _Deleting(exchange, admission, refused)
    await deleting.run(_parts(storable))
    if deleting.trouble is not None and not deleting.deleted:
        if isinstance(deleting.trouble, Reply):
            repeat(exchange, deleting.trouble)
            return
        raise deleting.trouble
    exchange.answer(200, _XML, xml.delete_result_xml(() if request.quiet else deleting.deleted, deleting.refused))


def _parts(entries: list[DeleteEntry]) -> list[list[DeleteEntry]]:
    """As few as possible and of equal size; in the order of the keys, so that neighbours are looked at together."""
    entries = sorted(entries, key=lambda entry: entry.key.encode())
    count = -(-len(entries) // _PART)
    return [entries[len(entries) * part // count : len(entries) * (part + 1) // count] for part in range(count)]


class _Deleting:
    """The parts of one request: some at a time, each a change of its own, as if they were requests of their own.

    `trouble` is why a part failed: the backend's answer, or an error. Then no more are begun.
    """

    def __init__(self, exchange: Exchange, admission: Admission, refused: list[DeleteFailure]) -> None:
        self._exchange = exchange
        self._admission = admission
        self.deleted: list[Deleted] = []
        self.refused = refused
        self.trouble: Reply | TidegateError | None = None

    async def run(self, parts: Sequence[Sequence[DeleteEntry]]) -> None:
        """Parts that are under way when one fails are seen through: what they do must get into the log."""
        left = iter(parts)
        await asyncio.gather(*(self._run_lane(left) for _ in range(min(_PARTS_AT_ONCE, len(parts)))))
        if self.trouble is not None:
            for part in left:
                self._give_up(part, self.trouble)

    async def _run_lane(self, left: Iterator[Sequence[DeleteEntry]]) -> None:
        while self.trouble is None and not self._exchange.finished:
            part = next(left, None)
            if part is None:
                return
            await _Part(self, self._exchange, self._admission, part).run()

    def part_failed(self, entries: Sequence[DeleteEntry], why: Reply | TidegateError, *, is_certain: bool) -> None:
        """`is_certain`: none of the entries was deleted."""
        said = f"status {why.head.status}" if isinstance(why, Reply) else str(why)
        logger.warning("request %s: %d keys were not deleted: %s", self._exchange.request_id, len(entries), said)
        if self.trouble is None or not is_certain:  # a refusal alone would say that nothing was done
            self.trouble = why
        self._give_up(entries, why)

    def _give_up(self, entries: Sequence[DeleteEntry], why: Reply | TidegateError) -> None:
        code, message = _told(why)
        self.refused += [DeleteFailure(entry.key, entry.version_id, code, message) for entry in entries]


class _Part:
    """One part. `_left` are the entries that have no answer yet."""

    def __init__(
        self, whole: _Deleting, exchange: Exchange, admission: Admission, entries: Sequence[DeleteEntry]
    ) -> None:
        self._whole = whole
        self._exchange = exchange
        self._admission = admission
        self._left = entries
        self._change = exchange.begin_change()

    async def run(self) -> None:
        """The part ends by itself, before the exchange would: what other parts did must be told."""
        seconds = self._exchange.gateway.patience_seconds
        self._exchange.wait(2 * seconds)
        try:
            async with asyncio.timeout(seconds):
                await self._delete()
        except BackendGone as error:  # nothing could be sent
            self._failed(error, is_certain=True)
        except TidegateError as error:
            self._failed(error, is_certain=not self._change.has_intent)
        except TimeoutError:
            self._failed(Unavailable("the request could not be served in time"), is_certain=not self._change.has_intent)
        except Exception:
            logger.exception("a part of request %s failed", self._exchange.request_id)
            self._failed(S3Error("InternalError"), is_certain=not self._change.has_intent)

    def _failed(self, why: Reply | TidegateError, *, is_certain: bool) -> None:
        """What may have been done stays open, for the healer to look into."""
        if is_certain:
            self._change.close_intent()
        self._whole.part_failed(self._left, why, is_certain=is_certain)

    async def _delete(self) -> None:
        exchange, admission, change = self._exchange, self._admission, self._change
        await change.lock(entry.key for entry in self._left)
        try:
            part = self._left
            view = await exchange.gateway.directory.current_bucket(admission.bucket_name)
            has_placements = view is not None and view.has_placements
            verdicts = await unchanged(
                exchange.gateway, admission.pool, admission.bucket_name, part, compares_etags=has_placements
            )
            self._left = [entry for entry, is_meant in zip(part, verdicts, strict=True) if is_meant]
            self._whole.refused += [
                _not_meant(entry) for entry, is_meant in zip(part, verdicts, strict=True) if not is_meant
            ]
            if not self._left:
                return
            change.open_intent(admission, ((entry.key, entry.version_id) for entry in self._left))
            if view is not None and has_placements and not await self._delete_moved(view):
                return
            reply = await self._ask(self._left, without_etags=has_placements)
            if reply.head.status != 200:
                self._failed(reply, is_certain=reply.head.status < 500)
                return
            answered = xml.parse_delete_result(reply.body)
            if view is not None and has_placements:
                await settle_deleted(exchange.gateway, admission, view, answered.deleted)
            events = [_deletion(exchange, change, entry) for entry in answered.deleted]
        finally:
            change.unlock()  # the events have their times: later changes have later ones
        await change.log(events)
        self._answered(answered)

    async def _delete_moved(self, view: BucketView) -> bool:
        """Sees to the versions that were moved; whether anything is left for the store."""
        moved, events, left = await delete_moved(self._exchange, self._change, self._admission, view, self._left)
        await self._change.log(events)
        self._whole.deleted += moved
        self._left = left
        if not left:
            self._change.close_intent()
        return bool(left)

    def _answered(self, answered: xml.DeleteResult) -> None:
        """The log has what was deleted. Nothing is known of keys that the answer leaves out."""
        self._whole.deleted += answered.deleted
        self._whole.refused += answered.failures
        named = {entry.key for entry in answered.deleted} | {entry.key for entry in answered.failures}
        self._left = [entry for entry in self._left if entry.key not in named]
        if self._left:
            self._failed(S3Error("InternalError", "the backend does not tell what became of it"), is_certain=False)
        else:
            self._change.close_intent()

    async def _ask(self, entries: Sequence[DeleteEntry], *, without_etags: bool) -> Reply:
        admission = self._admission
        if without_etags:  # they were compared here
            entries = [entry._replace(etag=None) for entry in entries]
        given = admission.head.headers.get(_BYPASS)
        return await ask_signed(
            self._exchange.gateway,
            admission.pool,
            b"POST",
            object_path(admission.bucket_name),
            b"delete=",
            body=xml.delete_request_xml(map(_sent, entries)),
            headers=[(b"content-type", b"application/xml"), *([(_BYPASS, given)] if given is not None else [])],
        )


def _told(why: Reply | TidegateError) -> tuple[str, str]:
    """The code and the message that a key's error has."""
    if isinstance(why, S3Error):
        return why.code, why.message
    if isinstance(why, TidegateError):
        return "ServiceUnavailable", str(why)
    message = f"the backend answered with status {why.head.status}"
    try:
        fields = xml.parse_reply(why.body).fields
    except TidegateError:
        fields = {}
    return fields.get("Code") or "ServiceUnavailable", fields.get("Message") or message


def _storable(admission: Admission, entries: Sequence[DeleteEntry]) -> tuple[list[DeleteEntry], list[DeleteFailure]]:
    """A key that the backend would take for another one must not be deleted there."""
    kept: list[DeleteEntry] = []
    refused: list[DeleteFailure] = []
    for entry in entries:
        problem = admission.pool.traits.key_problem(entry.key)
        if problem:
            refused.append(DeleteFailure(entry.key, entry.version_id, "InvalidArgument", problem))
        else:
            kept.append(entry)
    return kept, refused


def _sent(entry: DeleteEntry) -> DeleteEntry:
    """What was compared here need not be compared once more, which costs the store a look at the object."""
    return entry._replace(etag=None) if needs_look(entry) else entry


def _not_meant(entry: DeleteEntry) -> DeleteFailure:
    return DeleteFailure(entry.key, entry.version_id, "PreconditionFailed", "The object is not the one that was meant.")


def _deletion(exchange: Exchange, change: Change, entry: Deleted) -> Event:
    kind, version_id = EventKind.DELETE, entry.version_id
    if entry.marker and not version_id:
        kind, version_id = EventKind.DELETE_MARKER, entry.marker_version_id
    return event_builder.event(exchange, kind, key=entry.key, change=change, version_id=version_id)
