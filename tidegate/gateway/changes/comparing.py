"""What a backend shows of a key beside what the metadata log has about it: the events that the log lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.core import xml
from tidegate.core.cors import CORS, CorsRules
from tidegate.core.errors import Unavailable
from tidegate.core.events import NULL_VERSION, Event, EventKind, Pairs
from tidegate.core.known_events import KnownEvents
from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.listings import ListedVersion
from tidegate.core.records import Bucket
from tidegate.core.replication.replicas import is_replica
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.gateway.changes.bucket_states import note_versioning
from tidegate.gateway.changes.change import Change
from tidegate.gateway.changes.intents import Intent
from tidegate.gateway.changes.key_versions import ask_bucket, key_versions
from tidegate.gateway.operations.open_uploads import open_uploads
from tidegate.gateway.operations.stored_objects import Shown, stat
from tidegate.gateway.requests.directory import PoolView
from tidegate.gateway.requests.forwarding import stored_tags

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

# Listings round times down, and clocks are set.
_EARLIER_SECONDS = 2.0


class Comparison:
    """One key, which the healer's change has locked; without a key, the bucket itself."""

    def __init__(
        self,
        gateway: Gateway,
        change: Change,
        intent: Intent,
        bucket: Bucket,
        view: PoolView,
        key: str,
        version_id: str,
        known: KnownEvents,
    ) -> None:
        self._gateway = gateway
        self._change = change
        self._intent = intent
        self._bucket = bucket
        self._view = view
        self._key = key
        self._version_id = version_id
        self._known = known
        self._since = intent.started_at - _EARLIER_SECONDS

    async def events(self) -> list[Event]:
        """What is new since the change began; what is gone that it was to remove; tags; open uploads."""
        listed = (await key_versions(self._gateway, self._view, self._bucket.name, self._key))[::-1]
        old = [entry for entry in listed if entry.last_modified < self._since]
        new = await self._from_first_lacking([entry for entry in listed if entry.last_modified >= self._since])
        tagged = [entry for entry in self._tagged(old, listed) if entry not in new]
        events = [*await self._tagging(tagged), *[await self._version_event(entry) for entry in new]]
        if self._version_id and all(entry.version_id != self._version_id for entry in listed):
            if not self._known.has_deletion(self._version_id):
                events.append(self._event(EventKind.DELETE, version_id=self._version_id))
        elif not listed and not self._known.has_deletion("") and await self._is_gone():
            events.append(self._event(EventKind.DELETE))
        return events + await self._upload_events()

    async def bucket_events(self) -> list[Event]:
        """Which of its attributes was to be changed is not known; these are the ones that others follow."""
        reply = await self._ask({"versioning": ""})
        versioning = xml.parse_reply(reply).fields.get("Status", "")
        rules, cors = await self._stored(LIFECYCLE), await self._stored(CORS)
        attributes = [("lifecycle", RuleSet.from_json(rules).digest() if rules is not None else "")]
        if cors is not None or self._known.attributes.get("cors"):
            attributes.append(("cors", CorsRules.from_json(cors).digest() if cors is not None else ""))
        replication = await self._stored(REPLICATION)
        if replication is not None or self._known.attributes.get("replication"):
            digest = ReplicationRules.from_json(replication).digest() if replication is not None else ""
            attributes.append(("replication", digest))
        if versioning:
            tables, uid = self._gateway.tables, self._bucket.uid
            await self._gateway.loop.run_in_executor(None, note_versioning, tables, uid, versioning)
            self._gateway.change_counter.bump()
            attributes.append(("versioning", versioning))
        lacking = tuple((name, value) for name, value in attributes if self._known.attributes.get(name) != value)
        return [self._event(EventKind.BUCKET_ATTRIBUTES, attributes=lacking)] if lacking else []

    async def _stored(self, prefix: str) -> str | None:
        """What the tables keep for the bucket."""
        return await self._gateway.loop.run_in_executor(None, self._gateway.tables.get, prefix + self._bucket.uid)

    async def _from_first_lacking(self, oldest_first: list[ListedVersion]) -> list[ListedVersion]:
        """The versions from the first on that the log lacks: told alone, it would seem to be newer than the others."""
        for number, entry in enumerate(oldest_first):
            if not await self._is_known(entry):
                return oldest_first[number:]
        return []

    async def _is_known(self, entry: ListedVersion) -> bool:
        if entry.version_id not in ("", NULL_VERSION) or not self._known.may_have(entry.version_id):
            return self._known.may_have(entry.version_id)
        if entry.is_marker:
            return self._known.has_null_version(EventKind.DELETE_MARKER, "", entry.last_modified)
        shown = (await self._shown(entry)).get(b"etag", b"").decode("latin-1").strip('"')
        return self._known.has_null_version(EventKind.PUT, shown, entry.last_modified)

    def _tagged(self, old: list[ListedVersion], listed: list[ListedVersion]) -> list[ListedVersion]:
        """The versions of which only the tags may have changed: the one named, or all that have been current since."""
        named = [entry for entry in listed if self._version_id and entry.version_id == self._version_id]
        # Of a named version that is gone, the one below was current since, and may have been tagged without its id.
        candidates = named or [*old[-1:], *(entry for entry in listed if entry not in old)]
        return [entry for entry in candidates if not entry.is_marker]

    async def _tagging(self, tagged: list[ListedVersion]) -> list[Event]:
        found = [(entry.version_id, await self._tags(entry.version_id)) for entry in tagged]
        return [
            self._event(EventKind.TAGGING, version_id=version_id, tags=tags)
            for version_id, tags in found
            if not self._known.has_tags(version_id, tags)
        ]

    async def _is_gone(self) -> bool:
        """What a listing does not show may yet be there; a deletion that was none must never be believed."""
        if await stat(self._gateway, self._view, self._bucket.name, self._key) is not None:
            raise Unavailable(f"the backend has an object in {self._bucket.name} that it does not list")
        return True

    async def _version_event(self, entry: ListedVersion) -> Event:
        if entry.is_marker:
            return self._event(EventKind.DELETE_MARKER, version_id=entry.version_id)
        headers = await self._shown(entry)
        tags = await self._tags(entry.version_id)
        return self._event(
            EventKind.PUT,
            version_id=entry.version_id,
            size=int(headers.get(b"content-length", b"0")),
            etag=headers.get(b"etag", b"").decode("latin-1").strip('"'),
            tags=tags,
            storage_class=headers.get(b"x-amz-storage-class", b"").decode("latin-1") or "STANDARD",
            is_replica=is_replica(headers),
        )

    async def _shown(self, entry: ListedVersion) -> Shown:
        """Asked for by itself: a listing may show another ETag for an object that was uploaded in parts."""
        found = await stat(self._gateway, self._view, self._bucket.name, self._key, entry.version_id)
        if found is None:
            raise Unavailable(f"the backend lists an object in {self._bucket.name} that it does not show")
        return found

    async def _upload_events(self) -> list[Event]:
        uploads = [upload for upload in await open_uploads(self._ask, self._key) if upload.key == self._key]
        events = [
            self._event(EventKind.UPLOAD_STARTED, upload_id=upload.upload_id)
            for upload in uploads
            if upload.initiated >= self._since and not self._known.has_upload(upload.upload_id, is_open=True)
        ]
        wanted = self._intent.upload_id
        is_ended = wanted and all(upload.upload_id != wanted for upload in uploads)
        if is_ended and not self._known.has_upload(wanted, is_open=False):
            events.append(self._event(EventKind.UPLOAD_ABORTED, upload_id=wanted))
        return events

    async def _tags(self, version_id: str) -> Pairs:
        return await stored_tags(self._gateway, self._view, self._bucket.name, self._key, version_id)

    async def _ask(self, query: dict[str, str]) -> bytes:
        return await ask_bucket(self._gateway, self._view, self._bucket.name, query)

    def _event(self, kind: EventKind, **fields: Any) -> Event:
        return Event(
            ts_ns=self._change.event_time(self._key),
            operation=kind,
            pool=self._bucket.pool,
            bucket=self._bucket.name,
            bucket_uid=self._bucket.uid,
            owner=self._view.pool.owner,
            key=self._key,
            source=f"{self._gateway.name}/healer",
            **fields,
        )
