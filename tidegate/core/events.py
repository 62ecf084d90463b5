"""Events of the metadata log: one per change to what a bucket holds."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from msgspec.structs import asdict

from tidegate.core import codec
from tidegate.core.version_attributes import VersionAttributes

NULL_VERSION = "null"

Pairs = tuple[tuple[str, str], ...]


class EventKind(StrEnum):
    PUT = "put"
    DELETE = "delete"
    DELETE_MARKER = "delete-marker"
    UPLOAD_STARTED = "upload-started"
    UPLOAD_ABORTED = "upload-aborted"
    TAGGING = "tagging"
    MOVED = "moved"
    BUCKET_CREATED = "bucket-created"
    BUCKET_DELETED = "bucket-deleted"
    BUCKET_ATTRIBUTES = "bucket-attributes"


class Event(VersionAttributes, frozen=True):
    """A change that the backend has made.

    `ts_ns` strictly rises per key. `version_id` is "" on a bucket that never had versioning and "null" for the null
    version of one that has. A put is an upload, a copy, or a completed multipart upload (which then names its
    `upload_id`); it carries all tags of the new version. A version that comes back from the trash is put again, and
    so are, in their order, those that stand above it. A delete removes one version for good (a marker, too); a
    delete-marker adds one. A tagging event carries all tags that the version has now; with `version_id` "" it means
    the current version. A moved event says that the data of a version lies elsewhere now, under `storage_class`; it is
    no client's write, and the version keeps its time. `attributes` are those of the bucket that changed (for example
    versioning: Enabled). `source` says who made the change: gateway:HOST:PID/REQUEST_ID. `is_replica`: what was put is
    a replica, which came from another site and is not replicated on.
    """

    ts_ns: int
    operation: EventKind
    pool: str
    bucket: str
    bucket_uid: str
    owner: str = ""
    key: str = ""
    version_id: str = ""
    tags: Pairs = ()
    storage_class: str = ""
    upload_id: str = ""
    attributes: Pairs = ()
    source: str = ""
    is_replica: bool = False

    def to_bytes(self) -> bytes:
        values = asdict(self)
        values["tags"], values["attributes"] = dict(self.tags), dict(self.attributes)
        return codec.to_bytes(values)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        values: dict[str, Any] = codec.decoded(data, dict[str, Any], _WHAT)
        for name in ("tags", "attributes"):
            pairs = values.get(name, {})
            values[name] = tuple(pairs.items()) if isinstance(pairs, dict) else pairs
        return codec.converted(values, cls, _WHAT)


_WHAT = "event of the metadata log"
