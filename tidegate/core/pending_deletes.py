"""Pending deletes: data that no record refers to any more, or soon will not, and that must go from where it is stored.

The first phase sends one for each piece of data, and then drops the data from its record. The second phase deletes the
data, unless a record still refers to it, or the stored data is not what the message says.
"""

from __future__ import annotations

import re
from enum import StrEnum
from hashlib import sha256
from typing import Self
from urllib.parse import quote

from msgspec import Struct

from tidegate.core import codec
from tidegate.core.placements import RESERVED_METADATA

APPLICATION = "tidegate"
_LONGEST_KEY = 1024
_HASHED = re.compile("sha256:[0-9a-f]{64}")
KEY_HEADER = RESERVED_METADATA + "key"


class Component(StrEnum):
    """Whose data it is: what a record that refers to it is called. `UNKNOWN` is data that an audit found where only
    Tidegate's own should be, and that does not say whose it is."""

    PLACEMENT = "placement"
    TRASH = "trash"
    REPLICA = "replica"
    VERSION = "version"
    UPLOAD = "upload"
    UNKNOWN = "unknown"


class DataType(StrEnum):
    """Where the data lies: in the pool's own store, or in a location."""

    STORE = "store"
    LOCATION = "location"


class PendingDelete(Struct, frozen=True, kw_only=True):
    """`bucket`, `bucket_uid`, `key` and `version_id` say from which version the data is. In a location it lies under
    `data_key`; in the store it is the version itself. `upload_id` names an upload that was not completed. `etag` is
    that of the stored data, if it is known. `not_before` (Unix time) is when a grace ends. A copy at a site lies in
    `data_bucket`, where it is the version `data_version_id` of its key.
    """

    component: Component
    data_type: DataType
    pool: str
    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    sent_ns: int
    location: str = ""
    data_key: str = ""
    data_bucket: str = ""
    data_version_id: str = ""
    upload_id: str = ""
    etag: str = ""
    not_before: float = 0.0
    reason: str = ""

    def to_bytes(self) -> bytes:
        return codec.to_bytes(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return codec.decoded(data, cls, "pending delete")

    @property
    def missing(self) -> tuple[str, ...]:
        """The fields without which it cannot be carried out."""
        if self.component is Component.UNKNOWN:
            return tuple(name for name in ("location", "data_key", "etag") if not getattr(self, name))
        needed = ["pool", "bucket", "bucket_uid", "key"]
        if self.data_type is DataType.LOCATION:
            needed += ["location", "data_key"]
            if self.component is Component.REPLICA:
                needed += ["data_bucket"] + ([] if self.upload_id else ["data_version_id"])
        elif not self.upload_id:
            needed.append("version_id")
        return tuple(name for name in needed if not getattr(self, name))


def owner_metadata(
    component: Component, *, pool: str, bucket: str, bucket_uid: str, key: str, version_id: str
) -> dict[str, str]:
    """The headers with which a copy says whose it is. A key that is too long for a header is told by its hash. What
    lies in the trash is a copy like any other, since it becomes the data of a placement again if it is brought back."""
    component = Component.PLACEMENT if component is Component.TRASH else component
    return {
        RESERVED_METADATA + "application": APPLICATION,
        RESERVED_METADATA + "component": component.value,
        RESERVED_METADATA + "pool": pool,
        RESERVED_METADATA + "bucket": bucket,
        RESERVED_METADATA + "bucket-uid": bucket_uid,
        KEY_HEADER: key_text(key),
        RESERVED_METADATA + "version": version_id,
    }


def is_owner(pending: PendingDelete, metadata: dict[str, str]) -> bool:
    """Whether stored data, which shows these headers (names in lower case), is what the message says it is. Data that
    names Tidegate and no component is nobody's: a check of the location was killed."""
    if pending.component is Component.UNKNOWN:
        is_ours = metadata.get(RESERVED_METADATA + "application", "") == APPLICATION
        return not (is_ours and metadata.get(RESERVED_METADATA + "component", ""))
    wanted = owner_metadata(
        pending.component,
        pool=pending.pool,
        bucket=pending.bucket,
        bucket_uid=pending.bucket_uid,
        key=pending.key,
        version_id=pending.version_id,
    )
    if is_told_by_hash(pending, metadata):
        wanted[KEY_HEADER] = pending.key
    return all(metadata.get(name, "") == value for name, value in wanted.items())


def is_told_by_hash(pending: PendingDelete, metadata: dict[str, str]) -> bool:
    """Whether message and data tell the key by its hash alone: it may be any long key of the bucket."""
    return bool(_HASHED.fullmatch(pending.key)) and metadata.get(KEY_HEADER, "") == pending.key


def key_text(key: str) -> str:
    """Quoting sees to it that no key is taken for a hash."""
    quoted = quote(key, safe="/~")
    return quoted if len(quoted) <= _LONGEST_KEY else f"sha256:{sha256(key.encode()).hexdigest()}"
