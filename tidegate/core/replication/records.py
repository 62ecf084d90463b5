"""The record of a version's replication: its status at each site, with what the site's copy is called there.

`rs:UID/KEY<NUL>VERSION` in the tables. Beside it stands an entry for each site at which the version has not arrived
(`ro:SITE/UID/KEY<NUL>VERSION`), so that what is pending or failed is found without reading what has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from tidegate.core.codec import JsonRecord
from tidegate.core.events import NULL_VERSION

RECORDS = "rs:"
OPEN = "ro:"
_END_OF_KEY = "\0"


class Status(StrEnum):
    """Of a version at a site, or as a whole, as `x-amz-replication-status` tells it. `REPLICA`: it came from another
    site, and is not replicated on."""

    PENDING = "PENDING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    REPLICA = "REPLICA"


@dataclass(frozen=True, slots=True)
class SiteState:
    """`bucket` is that at the site. `since` (Unix time) is when it came to have the status, or its copy. Of a version
    that has arrived: the id and the ETag of its copy there. `reason` says why it failed."""

    site: str
    bucket: str
    status: Status
    since: float
    replica_version_id: str = ""
    replica_etag: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReplicationRecord(JsonRecord):
    """`ts_ns` is the time of the version's event in the metadata log: versions of a key are replicated in this order.
    `last_modified` (Unix time) is that of the version. A replica has no sites. `is_found`: a backfill found the version
    in a listing, which does not tell whether it is a replica."""

    pool: str
    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    ts_ns: int
    last_modified: float
    size: int = 0
    etag: str = ""
    is_marker: bool = False
    is_replica: bool = False
    is_found: bool = False
    sites: tuple[SiteState, ...] = ()

    @property
    def entry(self) -> str:
        return entry_of(self.bucket_uid, self.key, self.version_id)

    @property
    def status(self) -> Status:
        """As a whole: it has arrived when it has arrived everywhere, and what has failed anywhere has failed."""
        if self.is_replica:
            return Status.REPLICA
        found = {state.status for state in self.sites}
        return next((status for status in (Status.FAILED, Status.PENDING) if status in found), Status.COMPLETED)

    def at(self, site: str) -> SiteState | None:
        return next((state for state in self.sites if state.site == site), None)

    def with_state(self, state: SiteState) -> Self:
        """The record with this state of its site in place of an earlier one, or added."""
        others = [each for each in self.sites if each.site != state.site]
        return replace(self, sites=tuple(sorted((*others, state), key=lambda each: each.site)))

    def open_entries(self) -> dict[str, str | None]:
        """The entry of each site: the status while the version has not arrived, None (to be removed) when it has."""
        return {
            open_entry(state.site, self.bucket_uid, self.key, self.version_id): (
                None if state.status is Status.COMPLETED else OpenVersion.of(self, state).to_json()
            )
            for state in self.sites
        }


@dataclass(frozen=True, slots=True)
class OpenVersion(JsonRecord):
    """What the list of a site's open versions tells of one."""

    bucket: str
    status: Status
    ts_ns: int
    since: float
    size: int

    @classmethod
    def of(cls, record: ReplicationRecord, state: SiteState) -> Self:
        return cls(record.bucket, state.status, record.ts_ns, state.since, record.size)


def entries_of_key(bucket_uid: str, key: str) -> str:
    """The beginning of all entries of a key, and of no other."""
    return f"{RECORDS}{bucket_uid}/{key}{_END_OF_KEY}"


def entry_of(bucket_uid: str, key: str, version_id: str) -> str:
    return entries_of_key(bucket_uid, key) + (version_id or NULL_VERSION)


def open_entries_of_key(site: str, bucket_uid: str, key: str) -> str:
    return f"{OPEN}{site}/{bucket_uid}/{key}{_END_OF_KEY}"


def open_entry(site: str, bucket_uid: str, key: str, version_id: str) -> str:
    return open_entries_of_key(site, bucket_uid, key) + (version_id or NULL_VERSION)


def parse_open_entry(entry: str) -> tuple[str, str, str, str]:
    """Site, bucket uid, key and version id. Neither sites nor uids have a slash, and no version id a NUL."""
    site, uid, rest = entry.removeprefix(OPEN).split("/", 2)
    key, _, version_id = rest.rpartition(_END_OF_KEY)
    return site, uid, key, version_id
