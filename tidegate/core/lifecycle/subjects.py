"""What rules are applied to: the versions of a key, each with its place among the others, and open uploads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.events import NULL_VERSION, Pairs


class Versioning(StrEnum):
    """A bucket's versioning state."""

    OFF = "Off"
    ENABLED = "Enabled"
    SUSPENDED = "Suspended"


class VersionRole(StrEnum):
    """What a version is among the versions of its key; an upload has no version yet."""

    CURRENT = "current"
    NONCURRENT = "noncurrent"
    SOLE_MARKER = "sole-marker"
    COVERING_MARKER = "covering-marker"
    NONCURRENT_MARKER = "noncurrent-marker"
    UPLOAD = "upload"


_NONCURRENT = frozenset({VersionRole.NONCURRENT, VersionRole.NONCURRENT_MARKER})


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a key, or a delete marker.

    `tagged_ns` is when its tags were last set after its creation, and `moved_ns` when the removal of another version
    gave it its present place (current again, the sole one left, another successor); 0 where that never happened or
    is not known. They never move a due time, only the moment from which an action counts as due.
    """

    version_id: str
    created_ns: int
    size: int = 0
    tags: Pairs = ()
    storage_class: str = ""
    is_marker: bool = False
    etag: str = ""
    retained_until_ns: int | None = None
    legal_hold: bool = False
    replication_pending: bool = False
    tagged_ns: int = 0
    moved_ns: int = 0

    @property
    def is_null(self) -> bool:
        return self.version_id in ("", NULL_VERSION)

    def locked(self, now_ns: int) -> bool:
        return self.legal_hold or (self.retained_until_ns is not None and self.retained_until_ns > now_ns)


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that was started and neither completed nor aborted."""

    upload_id: str
    created_ns: int


@dataclass(frozen=True, slots=True)
class Subject:
    """What due times depend on.

    `demotions` are the times at which the key's noncurrent versions became noncurrent, the newest version first;
    `index` is this one's place among them, and so the number of newer noncurrent versions.
    """

    role: VersionRole
    created_ns: int
    demotions: tuple[int, ...] = ()
    index: int = 0

    @property
    def noncurrent_since_ns(self) -> int:
        return self.demotions[self.index]

    @property
    def counted_from_ns(self) -> int:
        """Where a count of days begins."""
        return self.noncurrent_since_ns if self.role in _NONCURRENT else self.created_ns


def subjects_of(versions: Sequence[Version]) -> list[Subject]:
    """The subjects of a key's versions, which come newest first.

    A version became noncurrent when the next newer one that still exists was created.
    """
    demotions = tuple(successor.created_ns for successor in versions[:-1])
    return [
        Subject(_role(version, position, len(versions)), version.created_ns, demotions, max(position - 1, 0))
        for position, version in enumerate(versions)
    ]


def of_upload(upload: Upload) -> Subject:
    return Subject(VersionRole.UPLOAD, upload.created_ns)


def _role(version: Version, position: int, count: int) -> VersionRole:
    if position > 0:
        return VersionRole.NONCURRENT_MARKER if version.is_marker else VersionRole.NONCURRENT
    if not version.is_marker:
        return VersionRole.CURRENT
    return VersionRole.SOLE_MARKER if count == 1 else VersionRole.COVERING_MARKER
