"""The messages of replication: what a site is to get, what became of it, and what has failed.

The shape (`action`, `target`, `details`) is Backbeat's. Records of one key keep their order: all topics choose the
partition by `record_key`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import asdict

from tidegate.core import codec
from tidegate.core.replication.records import ReplicationRecord, Status

REPLICATION_TOPIC = "replication"
STATUS_TOPIC = "replication-status"
FAILED_TOPIC = "replication-failed"
# Every failure and every retry that was asked for, as the status that told it, for as long as audit records are kept.
REPLICATION_AUDIT_TOPIC = "replication-audit"
POPULATOR_GROUP = "replication-populator"
STATUS_GROUP = "replication-status"
FAILED_GROUP = "replication-failed"
# With the name of the site.
REPLICATOR_GROUP = "replicator-"

_TARGET = {"bucket": "bucket", "bucket_uid": "bucketUid", "key": "key", "version_id": "version"}


class Content(StrEnum):
    """What of a version is to be replicated: all of it, or its tags alone, which were changed later."""

    VERSION = "version"
    TAGS = "tags"


class ReplicationTask(Struct, frozen=True, kw_only=True):
    """Replicates one version to the `sites`. `ts_ns` is the time of its event: versions of a key go in this order.
    `is_check`: a copy that is said to have arrived is looked for, and made again if it is not there. `earlier_ns` is
    the time that a version had before the log told of it once more: what has arrived since is put in order again.
    `moved_at` is that of the status (Unix time) by which the version's record gets another bucket at the sites."""

    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    ts_ns: int
    sites: tuple[str, ...]
    content: Content = Content.VERSION
    is_check: bool = False
    earlier_ns: int = 0
    moved_at: float = 0.0

    ACTION = "replicateVersion"

    def to_bytes(self) -> bytes:
        return _to_bytes(self.ACTION, self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return codec.converted(_values(data, _WHAT_TASK), cls, _WHAT_TASK)


class StatusUpdate(Struct, frozen=True, kw_only=True):
    """The status that a version has at a site from now on. `at` is a Unix time. `is_retry`: an operator asked for the
    failed version once more. Of one that has arrived: the id and the ETag of its copy. `site_bucket` is that at the
    site: one that is PENDING goes there, whatever its record said, and of another bucket than the record's nothing else
    is heard."""

    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    site: str
    status: Status
    at: float
    is_retry: bool = False
    replica_version_id: str = ""
    replica_etag: str = ""
    reason: str = ""
    size: int = 0
    site_bucket: str = ""

    ACTION = "updateStatus"

    def to_bytes(self) -> bytes:
        return _to_bytes(self.ACTION, self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return codec.converted(_values(data, _WHAT_STATUS), cls, _WHAT_STATUS)


class VersionGone(Struct, frozen=True, kw_only=True):
    """A message of the status topic: the version is no more, and its record goes, unless its time is later than
    `ts_ns`: then it has been brought back since. Without one, it goes."""

    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    ts_ns: int = 0

    ACTION = "forgetVersion"

    def to_bytes(self) -> bytes:
        return _to_bytes(self.ACTION, self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return codec.converted(_values(data, _WHAT_GONE), cls, _WHAT_GONE)


class VersionRetimed(Struct, frozen=True, kw_only=True):
    """A message of the status topic: the log told of the version once more, at a later time. That is its time among the
    versions of its key from now on. `record` is what it gets if it has been deleted and brought back, so that its own
    has gone."""

    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    ts_ns: int
    record: ReplicationRecord | None = None

    ACTION = "retimeVersion"

    def to_bytes(self) -> bytes:
        return _to_bytes(self.ACTION, self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return codec.converted(_values(data, _WHAT_RETIMED), cls, _WHAT_RETIMED)


StatusMessage = StatusUpdate | VersionGone | VersionRetimed


def read_status(data: bytes) -> StatusMessage:
    """A message of the status topic."""
    match codec.decoded(data, _Message, _WHAT_STATUS).action:
        case VersionGone.ACTION:
            return VersionGone.from_bytes(data)
        case VersionRetimed.ACTION:
            return VersionRetimed.from_bytes(data)
        case _:
            return StatusUpdate.from_bytes(data)


class FailedVersion(Struct, frozen=True):
    """A message of the failed topic: `key` is BUCKET:KEY:VERSION:SITE."""

    key: str

    def to_bytes(self) -> bytes:
        return codec.to_bytes(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return codec.decoded(data, cls, "failed version")


_WHAT_TASK = "replication task"
_WHAT_STATUS = "replication status"
_WHAT_GONE = "replicated version that is gone"
_WHAT_RETIMED = "time of a replicated version"


def record_key(bucket_uid: str, key: str) -> str:
    return f"{bucket_uid}/{key}"


class _Message(Struct):
    action: str
    target: dict[str, Any]
    details: dict[str, Any] = {}


def _to_bytes(action: str, message: Struct) -> bytes:
    values = asdict(message)
    target = {written: values.pop(name) for name, written in _TARGET.items()}
    return codec.to_bytes({"action": action, "target": target, "details": values})


def _values(data: bytes, what: str) -> dict[str, Any]:
    message = codec.decoded(data, _Message, what)
    return {**message.details, **{name: message.target.get(written, "") for name, written in _TARGET.items()}}
