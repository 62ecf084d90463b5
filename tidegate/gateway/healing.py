"""The healer: looks at the backend for what became of changes that were left open, and journals what it finds.

A gateway that was killed between a backend's success and the journal, a backend that failed in the middle of a
change, a log that could not be written: the client was never told of success, but the change may stand.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate.core import listings
from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.events import Event, EventKind, Pairs
from tidegate.core.listings import ListedVersion
from tidegate.core.records import Bucket
from tidegate.gateway.directory import Missing, PoolView
from tidegate.gateway.intents import Intent
from tidegate.gateway.journal import journalled
from tidegate.gateway.ordering import stripe_of
from tidegate.gateway.requests import ask_signed, object_path, stored_tags

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

logger = logging.getLogger(__name__)

# A backend whose client went away may still be at work; and listings may round times down.
_SETTLING_SECONDS = 2.0
_ROUND_SECONDS = 2.0


class Healer:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._doubtful: list[int] = []

    def doubt(self, number: int) -> None:
        """A change of this process whose outcome is unknown."""
        self._doubtful.append(number)

    async def run_forever(self) -> None:
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            await self.run_once()

    async def run_once(self) -> None:
        intents = self._gateway.intents
        for number in list(self._doubtful):
            intent = intents.get(number)
            if intent is None or await self._healed(intent):
                intents.end(number)
                self._doubtful.remove(number)
        for path, left in intents.abandoned():
            if all([await self._healed(intent) for intent in left]):
                path.unlink(missing_ok=True)
                _report(path, left)

    async def _healed(self, intent: Intent) -> bool:
        if time.time() - intent.started_at < _SETTLING_SECONDS:
            return False
        try:
            for key, version_id in intent.changes:
                await self._heal(intent, key, version_id)
        except TidegateError as error:
            logger.warning("a change to %s left open cannot be looked into yet: %s", intent.bucket, error)
            return False
        return True

    async def _heal(self, intent: Intent, key: str, version_id: str) -> None:
        gateway = self._gateway
        places = await self._places(intent)
        if places is None or not key:
            return
        stripe = stripe_of(intent.bucket, key)
        await gateway.order.acquire(stripe)
        try:
            case = _Case(gateway, intent, *places, key, version_id)
            await journalled(gateway, await case.events())
        finally:
            gateway.order.release(stripe)

    async def _places(self, intent: Intent) -> tuple[Bucket, PoolView] | None:
        """The bucket and its running pool; None when they are gone, and with them the question."""
        directory = self._gateway.directory
        while True:
            try:
                found = directory.bucket(intent.bucket)
                view = directory.pool(intent.pool)
            except Missing as missing:
                await directory.load(missing)
                continue
            if found is None or view is None or found.bucket.pool != intent.pool:
                return None
            return found.bucket, await self._gateway.awake(view)


class _Case:
    """One key, whose turn the healer has, and what the backend shows of it now."""

    def __init__(
        self, gateway: Gateway, intent: Intent, bucket: Bucket, view: PoolView, key: str, version_id: str
    ) -> None:
        self._gateway = gateway
        self._intent = intent
        self._bucket = bucket
        self._view = view
        self._key = key
        self._version_id = version_id
        self._since = intent.started_at - _SETTLING_SECONDS

    async def events(self) -> list[Event]:
        """What is new since the change began; what is gone that it was to remove; open uploads likewise."""
        listed = await self._versions()
        events = [await self._version_event(entry) for entry in listed if entry.last_modified >= self._since]
        if self._version_id and all(entry.version_id != self._version_id for entry in listed):
            events.append(self._event(EventKind.DELETE, version_id=self._version_id))
        elif not listed:
            events.append(self._event(EventKind.DELETE))
        elif not events and not listed[-1].is_marker:
            # Nothing new, so at most its tags were changed.
            events.append(self._event(EventKind.TAGGING, tags=await self._tags("")))
        return events + await self._upload_events()

    async def _versions(self) -> list[ListedVersion]:
        """The oldest first. Times have whole seconds; within one the listing has the newest first."""
        body = await self._listing("versions")
        found = [entry for entry in listings.parse_versions(body) if entry.key == self._key]
        found.reverse()
        return sorted(found, key=lambda entry: (entry.last_modified, entry.is_latest))

    async def _version_event(self, entry: ListedVersion) -> Event:
        if entry.is_marker:
            return self._event(EventKind.DELETE_MARKER, version_id=entry.version_id)
        tags = await self._tags(entry.version_id)
        return self._event(
            EventKind.PUT,
            version_id=entry.version_id,
            size=entry.size,
            etag=entry.etag,
            tags=tags,
            storage_class=entry.storage_class or "STANDARD",
        )

    async def _upload_events(self) -> list[Event]:
        body = await self._listing("uploads")
        uploads = [upload for upload in listings.parse_uploads(body) if upload.key == self._key]
        events = [
            self._event(EventKind.UPLOAD_STARTED, upload_id=upload.upload_id)
            for upload in uploads
            if upload.initiated >= self._since
        ]
        wanted = self._intent.upload_id
        if wanted and all(upload.upload_id != wanted for upload in uploads):
            events.append(self._event(EventKind.UPLOAD_ABORTED, upload_id=wanted))
        return events

    async def _tags(self, version_id: str) -> Pairs:
        return await stored_tags(self._gateway, self._view, self._bucket.name, self._key, version_id)

    async def _listing(self, subresource: str) -> bytes:
        reply = await ask_signed(
            self._gateway,
            self._view,
            b"GET",
            object_path(self._bucket.name),
            f"encoding-type=url&prefix={quote(self._key, safe='')}&{subresource}=".encode(),
            credentials=(self._view.admin_key, self._view.admin_secret),
        )
        if reply.head.status != 200:
            raise Unavailable(f"the backend answered a listing of {self._bucket.name} with {reply.head.status}")
        return reply.body

    def _event(self, kind: EventKind, **fields: Any) -> Event:
        gateway = self._gateway
        return Event(
            ts_ns=gateway.order.next_time(stripe_of(self._bucket.name, self._key), time.time_ns()),
            operation=kind,
            pool=self._bucket.pool,
            bucket=self._bucket.name,
            bucket_uid=self._bucket.uid,
            owner=self._view.pool.owner,
            key=self._key,
            source=f"{gateway.name}/healer",
            **fields,
        )


def _report(path: Path, left: list[Intent]) -> None:
    if left:
        logger.info("looked into %d changes that gateway %s had left open", len(left), path.name.partition("-")[0])
