"""The list of failures: the versions that failed at a site not long ago, page by page.

An entry says which version failed where; what else is told of it stands in the version's record. An entry whose record
is gone, or does not say FAILED any more, is left out.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import BaseModel

from tidegate.core.errors import InvalidInput
from tidegate.core.events import NULL_VERSION
from tidegate.core.records import Bucket
from tidegate.core.replication.failed_keys import FAILED, FailedKey, entries_of_bucket
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status, entry_of
from tidegate.ports import Tables
from tidegate.views import filled

PAGE = 1000
# So many entries are looked at for one page, however few of them match.
MOST_LOOKED_AT = 10_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which failures are meant; what is empty leaves it open."""

    bucket: str = ""
    key: str = ""
    version_id: str = ""
    site: str = ""

    def __post_init__(self) -> None:
        if self.key and not self.bucket:
            raise InvalidInput("to select by key, name the bucket as well")
        if self.version_id and not self.key:
            raise InvalidInput("to select by version id, name bucket and key as well")

    def matches(self, failed: FailedKey) -> bool:
        return (
            self.bucket in ("", failed.bucket)
            and self.key in ("", failed.key)
            and self.version_id in ("", failed.version_id)
            and self.site in ("", failed.site)
        )

    @property
    def prefix(self) -> str:
        """The beginning of the entries that may match."""
        if not self.bucket:
            return FAILED
        return entries_of_bucket(self.bucket) + (f"{self.key}:" if self.key else "")


@dataclass(frozen=True, slots=True)
class Failure:
    """A version that has failed at a site, with all that is known of it."""

    failed: FailedKey
    record: ReplicationRecord
    state: SiteState


class FailureView(BaseModel):
    """A failure, as commands show it."""

    site: str
    bucket: str
    key: str
    version_id: str
    size: int
    last_modified: datetime
    failed_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class FailurePage:
    """`next_marker` is empty on the last page."""

    failures: tuple[Failure, ...]
    next_marker: str = ""


class FailureReader:
    """What the tables tell of failures. It remembers the uids of buckets: make a new one for each request."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._uids: dict[str, str] = {}

    def page(self, selection: Selection, marker: str = "", *, most: int = PAGE) -> FailurePage:
        """The failures after the marker, at most `most` of them. What fails or is retried meanwhile does not change
        where the others stand: reading on from marker to marker gives each of them once."""
        if selection.version_id:
            return FailurePage(self._of_version(selection))
        after = FAILED + _unpacked(marker) if marker else None
        found: list[Failure] = []
        looked_at = 0
        while looked_at < MOST_LOOKED_AT:
            entries = self._tables.scan(selection.prefix, after=after, limit=PAGE)
            for entry, _ in entries:
                if len(found) == most:
                    return FailurePage(tuple(found), _packed((after or "").removeprefix(FAILED)))
                found += [each] if (each := self._matching(entry, selection)) is not None else []
                after = entry
            if len(entries) < PAGE:
                return FailurePage(tuple(found))
            looked_at += len(entries)
        return FailurePage(tuple(found), _packed((after or "").removeprefix(FAILED)))

    def find(self, failed: FailedKey) -> Failure | None:
        """None for what has not failed, whether the list has it or not."""
        uid = self._uid(failed.bucket)
        text = self._tables.get(entry_of(uid, failed.key, failed.version_id)) if uid else None
        if text is None:
            return None
        record = ReplicationRecord.from_json(text)
        state = record.at(failed.site)
        return Failure(failed, record, state) if state is not None and state.status is Status.FAILED else None

    def _matching(self, entry: str, selection: Selection) -> Failure | None:
        try:
            failed = FailedKey.of_entry(entry)
        except InvalidInput:
            return None
        return self.find(failed) if selection.matches(failed) else None

    def _of_version(self, selection: Selection) -> tuple[Failure, ...]:
        """By the sites of its record: a version has few, and entries of other keys may begin like its own."""
        uid = self._uid(selection.bucket)
        version_id = selection.version_id or NULL_VERSION
        text = self._tables.get(entry_of(uid, selection.key, version_id)) if uid else None
        if text is None:
            return ()
        found = []
        record = ReplicationRecord.from_json(text)
        for state in record.sites:
            failed = FailedKey(selection.bucket, selection.key, version_id, state.site)
            is_failed = state.status is Status.FAILED and selection.matches(failed)
            if is_failed and self._tables.get(failed.entry) is not None:
                found.append(Failure(failed, record, state))
        return tuple(found)

    def _uid(self, bucket: str) -> str:
        """Of the bucket that has this name now; empty where there is none."""
        uid = self._uids.get(bucket)
        if uid is None:
            text = self._tables.get(Bucket.PREFIX + bucket)
            uid = self._uids[bucket] = Bucket.from_json(text).uid if text is not None else ""
        return uid


def view_failure(failure: Failure) -> FailureView:
    failed_at = datetime.fromtimestamp(failure.state.since, UTC)
    return filled(FailureView, failure.failed, failure.record, failure.state, failed_at=failed_at)


def _packed(entry: str) -> str:
    """Letters, digits, dashes and underscores, whatever the key of the entry holds."""
    return base64.urlsafe_b64encode(entry.encode()).decode().rstrip("=")


def _unpacked(marker: str) -> str:
    try:
        return base64.b64decode(marker + "=" * (-len(marker) % 4), b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise InvalidInput(f"{marker[:100]!r} is no marker: give the NextMarker of an earlier page") from None
