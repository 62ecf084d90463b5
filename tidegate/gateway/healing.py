"""The healer: looks at the backend for what became of changes that were left open, and journals what it finds.

A gateway that was killed between a backend's success and the journal, a backend that failed in the middle of a
change, a log that could not be written: the client was never told of success, but the change may stand.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from tidegate.core import listings, xml
from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.events import Event, EventKind, Pairs
from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.listings import ListedUpload, ListedVersion
from tidegate.core.records import Bucket
from tidegate.gateway.bucket_states import note_versioning
from tidegate.gateway.directory import Missing, PoolView
from tidegate.gateway.intents import Abandoned, Intent
from tidegate.gateway.journal import journalled
from tidegate.gateway.ordering import stripe_of
from tidegate.gateway.requests import ask_signed, object_path, stat, stored_tags

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

logger = logging.getLogger(__name__)

# A backend whose gateway or connection is gone may still be at work.
_SETTLING_SECONDS = 2.0
# Listings round times down, and clocks are set.
_EARLIER_SECONDS = 2.0
_ROUND_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 60.0
_VERSIONS_FOLDER = ".versions/"


class _Pause(NamedTuple):
    until: float
    seconds: float


class Healer:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._doubtful: dict[int, float] = {}
        self._first_seen: dict[Path, float] = {}
        self._pauses: dict[tuple[str, str], _Pause] = {}

    def doubt(self, number: int) -> None:
        """A change of this process whose outcome is unknown."""
        self._doubtful[number] = self._gateway.loop.time()

    async def run_forever(self) -> None:
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            await self.run_once()

    async def run_once(self) -> None:
        await self._look_into_own()
        first_seen, self._first_seen = self._first_seen, {}
        for file in self._gateway.intents.abandoned():
            self._first_seen[file.path] = first_seen.get(file.path, self._gateway.loop.time())
            if self._has_settled(self._first_seen[file.path]):
                await self._look_into(file)

    async def _look_into(self, file: Abandoned) -> None:
        count = len(file.left)
        for number, intent in list(file.left.items()):
            if await self._healed(intent):
                file.end(number)
        file.remove_if_done()
        if count != len(file.left):
            gateway = file.path.name.partition("-")[0]
            logger.info("looked into %d changes that gateway %s had left open", count - len(file.left), gateway)

    async def _look_into_own(self) -> None:
        intents = self._gateway.intents
        for number, since in list(self._doubtful.items()):
            intent = intents.get(number)
            if intent is None or (self._has_settled(since) and await self._healed(intent)):
                intents.end(number)
                del self._doubtful[number]

    def _has_settled(self, since: float) -> bool:
        return self._gateway.loop.time() - since >= _SETTLING_SECONDS

    async def _healed(self, intent: Intent) -> bool:
        """A bucket that cannot be looked into holds up its own changes only, and is asked ever less often."""
        place = (intent.pool, intent.bucket)
        pause = self._pauses.get(place)
        if pause is not None and self._gateway.loop.time() < pause.until:
            return False
        try:
            for key, version_id in intent.changes:
                await self._heal(intent, key, version_id)
        except TidegateError as error:
            logger.warning("a change to %s left open cannot be looked into yet: %s", intent.bucket, error)
            seconds = min(2 * pause.seconds, _LONGEST_PAUSE_SECONDS) if pause is not None else _ROUND_SECONDS
            self._pauses[place] = _Pause(self._gateway.loop.time() + seconds, seconds)
            return False
        self._pauses.pop(place, None)
        return True

    async def _heal(self, intent: Intent, key: str, version_id: str) -> None:
        gateway = self._gateway
        places = await self._places(intent)
        if places is None:
            return
        stripe = stripe_of(intent.bucket, key)
        await gateway.order.acquire(stripe)
        try:
            case = _Case(gateway, intent, *places, key, version_id)
            await journalled(gateway, await (case.events() if key else case.bucket_events()))
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
            reason = view.disabled(time.time())
            if reason:
                raise Unavailable(f"the pool is not in service: {reason}")
            return found.bucket, await self._gateway.awake(view)


class _Case:
    """One key, whose turn the healer has, and what the backend shows of it now; without a key, the bucket itself."""

    def __init__(
        self, gateway: Gateway, intent: Intent, bucket: Bucket, view: PoolView, key: str, version_id: str
    ) -> None:
        self._gateway = gateway
        self._intent = intent
        self._bucket = bucket
        self._view = view
        self._key = key
        self._version_id = version_id
        self._since = intent.started_at - _EARLIER_SECONDS

    async def events(self) -> list[Event]:
        """What is new since the change began; what is gone that it was to remove; tags; open uploads."""
        listed = await self._versions()
        new = [entry for entry in listed if entry.last_modified >= self._since]
        old = [entry for entry in listed if entry.last_modified < self._since]
        events = [*await self._tagging(old), *[await self._version_event(entry) for entry in new]]
        if self._version_id and all(entry.version_id != self._version_id for entry in listed):
            events.append(self._event(EventKind.DELETE, version_id=self._version_id))
        elif not listed and await self._is_gone():
            events.append(self._event(EventKind.DELETE))
        return events + await self._upload_events()

    async def bucket_events(self) -> list[Event]:
        """Which of its attributes was to be changed is not known; these are the ones that others follow."""
        reply = await self._ask({"versioning": ""})
        versioning = xml.parse_reply(reply).fields.get("Status", "")
        rules = await self._gateway.loop.run_in_executor(None, self._gateway.tables.get, LIFECYCLE + self._bucket.uid)
        attributes = [("lifecycle", RuleSet.from_json(rules).digest() if rules is not None else "")]
        if versioning:
            tables, uid = self._gateway.tables, self._bucket.uid
            await self._gateway.loop.run_in_executor(None, note_versioning, tables, uid, versioning)
            attributes.append(("versioning", versioning))
        return [self._event(EventKind.BUCKET_ATTRIBUTES, attributes=tuple(attributes))]

    async def _versions(self) -> list[ListedVersion]:
        """The oldest first. Times have whole seconds; within one the listing has the newest first."""
        found, is_complete = await self._listed_below(self._key)
        if not is_complete:
            # SeaweedFS lists a key's versions where its folder for them stands, after longer keys that begin with
            # the key, and its markers lead past them. Asked for the folder, it lists those versions alone.
            found |= (await self._listed_below(self._key + _VERSIONS_FOLDER))[0]
        oldest_first = list(found.values())[::-1]
        return sorted(oldest_first, key=lambda entry: (entry.last_modified, entry.is_latest))

    async def _listed_below(self, prefix: str) -> tuple[dict[str, ListedVersion], bool]:
        """The key's versions on the first pages with that prefix, by id, and whether there are no more pages."""
        found: dict[str, ListedVersion] = {}
        query = {"versions": "", "prefix": prefix}
        while True:
            page = listings.parse_version_page(await self._ask(query))
            found |= {entry.version_id: entry for entry in page.versions if entry.key == self._key}
            if not page.is_truncated:
                return found, True
            if page.versions and page.versions[-1].key != self._key:
                return found, False
            query = self._further(query, {"key-marker": page.next_key, "version-id-marker": page.next_version_id})

    def _further(self, query: dict[str, str], markers: dict[str, str]) -> dict[str, str]:
        """The query for the next page. Not every store gives all the markers."""
        further = query | {name: marker for name, marker in markers.items() if marker}
        if further == query:
            raise Unavailable(f"the backend's listing of {self._bucket.name} does not go on, and does not end")
        return further

    async def _is_gone(self) -> bool:
        """What a listing does not show may yet be there; a deletion that was none must never be believed."""
        if await stat(self._gateway, self._view, self._bucket.name, self._key) is not None:
            raise Unavailable(f"the backend has an object in {self._bucket.name} that it does not list")
        return True

    async def _tagging(self, old: list[ListedVersion]) -> list[Event]:
        """Of what was there before, only the tags may have changed: of the version named, or of the current one."""
        named = [entry for entry in old if entry.version_id == self._version_id] if self._version_id else old[-1:]
        return [
            self._event(EventKind.TAGGING, version_id=entry.version_id, tags=await self._tags(entry.version_id))
            for entry in named
            if not entry.is_marker
        ]

    async def _version_event(self, entry: ListedVersion) -> Event:
        if entry.is_marker:
            return self._event(EventKind.DELETE_MARKER, version_id=entry.version_id)
        # Asked for by itself: a listing may show another ETag for an object that was uploaded in parts.
        found = await stat(self._gateway, self._view, self._bucket.name, self._key, entry.version_id)
        if found is None:
            raise Unavailable(f"the backend lists an object in {self._bucket.name} that it does not show")
        headers = found.head.headers
        tags = await self._tags(entry.version_id)
        return self._event(
            EventKind.PUT,
            version_id=entry.version_id,
            size=int(headers.get(b"content-length", b"0")),
            etag=headers.get(b"etag", b"").decode("latin-1").strip('"'),
            tags=tags,
            storage_class=headers.get(b"x-amz-storage-class", b"").decode("latin-1") or "STANDARD",
        )

    async def _upload_events(self) -> list[Event]:
        uploads = await self._uploads()
        events = [
            self._event(EventKind.UPLOAD_STARTED, upload_id=upload.upload_id)
            for upload in uploads
            if upload.initiated >= self._since
        ]
        wanted = self._intent.upload_id
        if wanted and all(upload.upload_id != wanted for upload in uploads):
            events.append(self._event(EventKind.UPLOAD_ABORTED, upload_id=wanted))
        return events

    async def _uploads(self) -> list[ListedUpload]:
        found: list[ListedUpload] = []
        query = {"uploads": "", "prefix": self._key}
        while True:
            page = listings.parse_upload_page(await self._ask(query))
            found += [upload for upload in page.uploads if upload.key == self._key]
            if not page.is_truncated:
                return found
            query = self._further(query, {"key-marker": page.next_key, "upload-id-marker": page.next_upload_id})

    async def _tags(self, version_id: str) -> Pairs:
        return await stored_tags(self._gateway, self._view, self._bucket.name, self._key, version_id)

    async def _ask(self, query: dict[str, str]) -> bytes:
        """A question about the bucket."""
        reply = await ask_signed(
            self._gateway,
            self._view,
            b"GET",
            object_path(self._bucket.name),
            urlencode({"encoding-type": "url", **query}, quote_via=quote, safe="").encode(),
            credentials=(self._view.admin_key, self._view.admin_secret),
        )
        if reply.head.status != 200:
            raise Unavailable(f"the backend answered a question about {self._bucket.name} with {reply.head.status}")
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
