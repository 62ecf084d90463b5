"""Events of the metadata log: one per change to what a bucket holds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, Self

from tidegate.core.errors import InvalidInput

NULL_VERSION = "null"

Pairs = tuple[tuple[str, str], ...]


class EventKind(StrEnum):
    PUT = "put"
    DELETE = "delete"
    DELETE_MARKER = "delete-marker"
    UPLOAD_STARTED = "upload-started"
    UPLOAD_ABORTED = "upload-aborted"
    TAGGING = "tagging"
    BUCKET_CREATED = "bucket-created"
    BUCKET_DELETED = "bucket-deleted"
    BUCKET_ATTRIBUTES = "bucket-attributes"


@dataclass(frozen=True, slots=True)
class Event:
    """A change that the backend has made.

    `ts_ns` strictly rises per key. `version_id` is "" on a bucket that never had versioning and "null" for the null
    version of one that has. A put is an upload, a copy, or a completed multipart upload (which then names its
    `upload_id`); it carries all tags of the new version. A delete removes one version for good (a marker, too); a
    delete-marker adds one. A tagging event carries all tags that the version has now; with `version_id` "" it means
    the current version. `attributes` are those of the bucket that changed (for example versioning: Enabled).
    `source` says who made the change: gateway:HOST:PID/REQUEST_ID.
    """

    ts_ns: int
    operation: EventKind
    pool: str
    bucket: str
    bucket_uid: str
    owner: str = ""
    key: str = ""
    version_id: str = ""
    size: int | None = None
    etag: str = ""
    tags: Pairs = ()
    storage_class: str = ""
    upload_id: str = ""
    attributes: Pairs = ()
    source: str = ""

    def to_bytes(self) -> bytes:
        """Compact JSON in a fixed order of fields; put together by hand, since the gateway does it per change."""
        size = "null" if self.size is None else self.size
        tags = _object(self.tags) if self.tags else "{}"
        attributes = _object(self.attributes) if self.attributes else "{}"
        return (
            f'{{"ts_ns":{self.ts_ns},"operation":"{self.operation.value}","pool":{_quoted(self.pool)},'
            f'"bucket":{_quoted(self.bucket)},"bucket_uid":{_quoted(self.bucket_uid)},"owner":{_quoted(self.owner)},'
            f'"key":{_quoted(self.key)},"version_id":{_quoted(self.version_id)},"size":{size},'
            f'"etag":{_quoted(self.etag)},"tags":{tags},"storage_class":{_quoted(self.storage_class)},'
            f'"upload_id":{_quoted(self.upload_id)},"attributes":{attributes},"source":{_quoted(self.source)}}}'
        ).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Fields that a newer version has added are ignored."""
        try:
            values: dict[str, Any] = json.loads(data)
            known = {name: values[name] for name in cls.__slots__ if name in values}
            known["operation"] = EventKind(known["operation"])
            for name in ("tags", "attributes"):
                known[name] = tuple(known.get(name, {}).items())
            return cls(**known)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"not an event of the metadata log: {error!r} in {data[:200]!r}") from None


def _object(pairs: Pairs) -> str:
    return "{" + ",".join([f"{_quoted(name)}:{_quoted(value)}" for name, value in pairs]) + "}"
