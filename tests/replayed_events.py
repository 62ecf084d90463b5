"""What the buckets must hold after a history of events: the pure fold that tests and audits compare listings with.

The events may come in any order and more than once: they are sorted by their time, and each says by itself what
it does, whether the bucket has no versioning, has it, or has it suspended. The null version ("" on a bucket without
versioning, "null" elsewhere) is one and the same: a new one takes the place of the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tidegate.core.events import NULL_VERSION, Event, EventKind, Pairs


@dataclass(frozen=True, slots=True)
class Version:
    """`version_id` is "null" for the null version of every bucket."""

    version_id: str
    ts_ns: int
    size: int
    etag: str
    tags: Pairs
    storage_class: str
    is_marker: bool


@dataclass(slots=True)
class ReplayedBucket:
    """`versions` holds each key's versions, the newest first; `uploads` the key of each open multipart upload."""

    name: str
    uid: str
    pool: str = ""
    versions: dict[str, list[Version]] = field(default_factory=dict)
    uploads: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    deleted: bool = False

    def objects(self) -> dict[str, Version]:
        """What a listing shows: the current versions that are no delete markers, in order of the keys' bytes."""
        return {key: current for key, current in self._current() if not current.is_marker}

    def _current(self) -> Iterator[tuple[str, Version]]:
        for key in sorted(self.versions, key=str.encode):
            yield key, self.versions[key][0]


def replay(events: Iterable[Event]) -> dict[str, ReplayedBucket]:
    """The buckets that exist in the end, by name. A bucket made anew under an old name begins empty."""
    buckets: dict[tuple[str, str], ReplayedBucket] = {}
    for event in sorted(events, key=lambda event: event.ts_ns):
        identity = (event.bucket, event.bucket_uid)
        # Two machines' clocks differ: a put may bear an earlier time than its bucket's creation.
        bucket = buckets.setdefault(identity, ReplayedBucket(event.bucket, event.bucket_uid))
        bucket.pool = event.pool
        _apply(bucket, event)
    return {bucket.name: bucket for bucket in buckets.values() if not bucket.deleted}


def _apply(bucket: ReplayedBucket, event: Event) -> None:
    match event.operation:
        case EventKind.PUT | EventKind.DELETE_MARKER:
            _add(bucket, event)
        case EventKind.DELETE:
            _remove(bucket, event.key, event.version_id or NULL_VERSION)
        case EventKind.TAGGING:
            _tag(bucket, event)
        case EventKind.MOVED:
            _move(bucket, event)
        case EventKind.UPLOAD_STARTED:
            bucket.uploads[event.upload_id] = event.key
        case EventKind.UPLOAD_ABORTED:
            bucket.uploads.pop(event.upload_id, None)
        case EventKind.BUCKET_ATTRIBUTES:
            bucket.attributes.update(event.attributes)
        case EventKind.BUCKET_DELETED:
            bucket.deleted = True
        case EventKind.BUCKET_CREATED:
            bucket.attributes.update(event.attributes)


def _add(bucket: ReplayedBucket, event: Event) -> None:
    version = Version(
        version_id=event.version_id or NULL_VERSION,
        ts_ns=event.ts_ns,
        size=event.size or 0,
        etag=event.etag,
        tags=event.tags,
        storage_class=event.storage_class,
        is_marker=event.operation is EventKind.DELETE_MARKER,
    )
    _remove(bucket, event.key, version.version_id)
    bucket.versions.setdefault(event.key, []).insert(0, version)
    bucket.uploads.pop(event.upload_id, None)


def _remove(bucket: ReplayedBucket, key: str, version_id: str) -> None:
    left = [version for version in bucket.versions.pop(key, []) if version.version_id != version_id]
    if left:
        bucket.versions[key] = left


def _tag(bucket: ReplayedBucket, event: Event) -> None:
    versions = bucket.versions.get(event.key, [])
    for position, version in enumerate(versions):
        if version.version_id == event.version_id or not event.version_id:
            versions[position] = replace(version, tags=event.tags)
            return


def _move(bucket: ReplayedBucket, event: Event) -> None:
    """The version keeps its place and its time. Without an id the null version is meant."""
    versions = bucket.versions.get(event.key, [])
    for position, version in enumerate(versions):
        if version.version_id == (event.version_id or NULL_VERSION):
            versions[position] = replace(version, storage_class=event.storage_class)
