"""What a site shows of a key: its versions, and of which versions of the source they are copies."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidegate.core.events import NULL_VERSION
from tidegate.core.listings import ListedVersion
from tidegate.core.pending_deletes import Component
from tidegate.core.placements import RESERVED_METADATA
from tidegate.core.replication.ordering import SiteVersion
from tidegate.core.replication.records import ReplicationRecord
from tidegate.core.replication.replicas import COMPONENT_HEADER
from tidegate.ports import Store, StoredHead

_UID_HEADER, _VERSION_HEADER = RESERVED_METADATA + "bucket-uid", RESERVED_METADATA + "version"
_PAGE = 1000
# A bucket without versioning uses them for whatever lies there.
NO_IDS = frozenset({"", NULL_VERSION})


def versions_at(
    store: Store, bucket: str, key: str, uids: Collection[str], copies: Mapping[str, str]
) -> tuple[SiteVersion, ...]:
    """The oldest first, of the newest thousand. `copies` are those that are known, with the versions of the source that
    they are copies of: they need not be asked for. `uids` are those of the buckets that the key may come from."""
    known = {copy: version_id for copy, version_id in copies.items() if copy not in NO_IDS}
    page = store.list_versions(bucket, prefix=key, limit=_PAGE)
    listed = [version for version in page.versions if version.key == key]
    return tuple(_seen(store, bucket, version, known, uids) for version in reversed(listed))


def _seen(
    store: Store, bucket: str, version: ListedVersion, known: Mapping[str, str], uids: Collection[str]
) -> SiteVersion:
    replica_of = known.get(version.version_id, "")
    if replica_of or version.is_marker:
        return SiteVersion(version.version_id, version.etag.strip('"'), version.is_marker, replica_of)
    head = store.head(bucket, version.key, version.version_id)
    if head is None:  # it was deleted since
        return SiteVersion(version.version_id)
    return SiteVersion(version.version_id, head.etag, replica_of=_source_of(head, uids))


def is_copy(head: StoredHead | None, record: ReplicationRecord) -> bool:
    """Whether what a site shows is a copy of this very version."""
    return head is not None and _source_of(head, {record.bucket_uid}) == record.version_id


def _source_of(head: StoredHead, uids: Collection[str]) -> str:
    """The version that an object says it is a copy of; nothing if it is none of these buckets."""
    headers = head.headers
    if headers.get(COMPONENT_HEADER, "") != Component.REPLICA or headers.get(_UID_HEADER, "") not in uids:
        return ""
    return headers.get(_VERSION_HEADER, "")
