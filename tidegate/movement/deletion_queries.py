"""What operators see of deletion and ask of it, the same for the HTTP API and the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from threading import Event as Flag
from typing import Any

import msgspec
from pydantic import BaseModel, Field

from tidegate.core.deletion_records import DeletionRecord, IncompletePending, read_pending
from tidegate.core.errors import InvalidInput
from tidegate.core.records import Bucket
from tidegate.dead_letters import DeadLetter, DeadLetters
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.queries.moments import moment_of
from tidegate.movement.deletion_audit import DeletionAudit
from tidegate.movement.known_locations import KnownLocations
from tidegate.movement.purge import Progress, Purge
from tidegate.movement.topics import DELETION_GROUP, create_deletion_topics
from tidegate.movement.trash import Trash
from tidegate.ports import Tables, Topics
from tidegate.settings import Settings
from tidegate.views import filled

_DAY_SECONDS = 86_400.0


class DeletionStatusView(BaseModel):
    """How far deletion is."""

    enabled: bool
    in_flight: int = Field(description="Pending deletes that are not finished; 0: all data is deleted.")
    retrying: int = Field(description="Those of them that wait for a retry, or for the end of a grace.")
    dead: int = Field(description="Dead letters about which nothing was done.")


class DeletionRecordView(BaseModel):
    """What became of one piece of data."""

    at: datetime
    outcome: str = Field(examples=["deleted"])
    component: str = Field(examples=["placement"])
    data_type: str = Field(examples=["location"])
    pool: str
    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    location: str
    data_key: str
    upload_id: str
    etag: str
    why: str = Field(description="Why it was to be deleted.")
    detail: str = Field(description="Why it ended like this.")
    worker: str


class DeadLetterView(BaseModel):
    """A pending delete that was given up."""

    id: str = Field(description="PARTITION:OFFSET")
    died_at: datetime
    reason: str = Field(description="Why the last try failed.")
    attempt: int
    origin: str
    component: str
    data_type: str
    pool: str
    bucket: str
    key: str
    version_id: str
    location: str
    data_key: str
    message: dict[str, Any] = Field(description="The pending delete as it was sent.")


class PurgeView(BaseModel):
    """What a purge found, and what became of it."""

    bucket: str
    prefix: str
    dry_run: bool
    versions: int
    markers: int
    uploads: int
    bytes: int
    deleted: int = Field(description="Versions and delete markers that are gone.")
    aborted: int = Field(description="Uploads that were aborted.")
    failed: int = Field(description="What is still there; the deletion history says why.")
    first_failure: str


@dataclass(frozen=True, slots=True)
class DeletionDesk:
    tables: Tables
    topics: Topics
    settings: Settings

    def in_flight(self) -> int:
        """Pending deletes that are not finished."""
        create_deletion_topics(self.topics, self.settings.deletion)
        return self.topics.lag(self.settings.deletion.topic, DELETION_GROUP)

    def status(self) -> DeletionStatusView:
        settings = self.settings.deletion
        return DeletionStatusView(
            enabled=settings.enabled,
            in_flight=self.in_flight(),
            retrying=self.topics.progress(settings.topic, DELETION_GROUP).retrying,
            dead=self._letters().count(),
        )

    def history(self, *, bucket: str = "", count: int) -> list[DeletionRecordView]:
        """The newest records, the oldest of them first."""
        create_deletion_topics(self.topics, self.settings.deletion)
        found = DeletionAudit(self.topics).newest(count, lambda record: not bucket or record.bucket == bucket)
        return [_view_record(record) for record in found]

    def dead(self, *, count: int) -> list[DeadLetterView]:
        return [_view_letter(letter) for letter in self._letters().open(count)]

    def show(self, letter_id: str) -> DeadLetterView:
        return _view_letter(self._letters().get(letter_id))

    def retry(self, letter_id: str) -> DeadLetterView:
        create_deletion_topics(self.topics, self.settings.deletion)
        return _view_letter(self._letters().retry(letter_id))

    def discard(self, letter_id: str) -> DeadLetterView:
        return _view_letter(self._letters().discard(letter_id))

    def _letters(self) -> DeadLetters:
        keep_seconds = self.settings.topics.dead_letter_days * _DAY_SECONDS
        return DeadLetters(self.tables, self.topics, self.settings.deletion.topic, keep_seconds=keep_seconds)

    def purge(
        self,
        bucket: Bucket,
        stores: Callable[[], Stores],
        locations: KnownLocations,
        *,
        prefix: str,
        dry_run: bool,
        confirm: str,
        progress: Progress = lambda counts: None,
    ) -> PurgeView:
        """`confirm` must be the bucket's name, unless it is a dry run. One of the `locations` is the trash."""
        if not dry_run and confirm != bucket.name:
            raise InvalidInput(
                f"to purge the bucket {bucket.name} for good, confirm it with its name, not with {confirm!r}"
            )
        create_deletion_topics(self.topics, self.settings.deletion)
        opened = stores()
        trash = Trash(self.tables, self.topics, opened, locations, self.settings, stop=Flag())
        try:
            store = opened.of_pool(bucket.pool)
            purge = Purge(
                store,
                bucket,
                DeletionAudit(self.topics),
                keeps_null_markers=opened.keeps_null_markers(bucket.pool),
                keeper=lambda: trash.of_bucket(bucket, store),
            )
            counts = purge.run(prefix, dry_run=dry_run, progress=progress)
        finally:
            trash.close()
            opened.close()
        return filled(PurgeView, counts, bucket=bucket.name, prefix=prefix, dry_run=dry_run)


def _view_record(record: DeletionRecord) -> DeletionRecordView:
    return filled(DeletionRecordView, record, at=moment_of(record.at_ns), outcome=record.outcome.value)


def _view_letter(letter: DeadLetter) -> DeadLetterView:
    pending = _pending(letter.value)
    names = ("component", "data_type", "pool", "bucket", "key", "version_id", "location", "data_key")
    told = {name: pending.text(name) for name in names}
    return filled(DeadLetterView, letter, message=pending.values, **told)


def _pending(value: bytes) -> IncompletePending:
    """A message that is none is shown as text."""
    try:
        found = read_pending(value)
    except InvalidInput:
        return IncompletePending({"text": value.decode(errors="replace")}, ())
    if isinstance(found, IncompletePending):
        return found
    return IncompletePending(msgspec.to_builtins(found), ())
