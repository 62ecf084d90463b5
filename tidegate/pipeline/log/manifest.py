"""The manifest of the log table: which files belong to it, and how far the topic has been landed.

It is one small JSON file that is replaced in one step. A file that it does not name is no part of the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import date
from pathlib import Path
from typing import Any, Self

from tidegate.core import codec
from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.datadir import write_private

# The table's place in the data directory, and the manifest's in the table.
DIRECTORY = "log-table"
FILE = "_manifest.json"
_FORMAT = 2
_FIRST_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition of the topic, both ends included. A merged file may have gaps in between."""

    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file with events of one day; `path` is relative to the table."""

    path: str
    day: str
    rows: int
    size: int
    first_ns: int
    last_ns: int
    offsets: tuple[OffsetRange, ...]

    @property
    def day_number(self) -> int:
        """Days since 1970."""
        return date.fromisoformat(self.day).toordinal() - _FIRST_DAY

    def overlaps(self, since_ns: int, until_ns: int) -> bool:
        """Whether it can hold events from `since_ns` to `until_ns`, both included."""
        return self.last_ns >= since_ns and self.first_ns <= until_ns


@dataclass(frozen=True, slots=True)
class RejectedFile:
    """Records of the topic that are no events, as they were."""

    path: str
    rows: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """`next_offsets` says, per partition, which record is landed next. The log is complete from `horizon_ns` on; 0
    means since the beginning."""

    next_offsets: tuple[int, ...] = ()
    files: tuple[DataFile, ...] = ()
    rejected: tuple[RejectedFile, ...] = ()
    horizon_ns: int = 0

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def rejected_rows(self) -> int:
        return sum(file.rows for file in self.rejected)

    def days(self) -> dict[str, list[DataFile]]:
        """The files of each day, the earliest day first."""
        found: dict[str, list[DataFile]] = {}
        for file in sorted(self.files, key=lambda file: (file.day, file.path)):
            found.setdefault(file.day, []).append(file)
        return found

    def landed(
        self, next_offsets: tuple[int, ...], files: Iterable[DataFile], rejected: Iterable[RejectedFile]
    ) -> Manifest:
        return replace(
            self,
            next_offsets=next_offsets,
            files=(*self.files, *files),
            rejected=(*self.rejected, *rejected),
        )

    def exchanged(self, old: Iterable[DataFile], new: Iterable[DataFile]) -> Manifest:
        gone = {file.path for file in old}
        return replace(self, files=(*(file for file in self.files if file.path not in gone), *new))

    def without_events_before(self, before_ns: int) -> Manifest:
        """Drops whole files; the horizon moves only past what was dropped."""
        dropped = [file for file in self.files if file.last_ns < before_ns]
        reached = max((file.last_ns + 1 for file in dropped), default=0)
        return replace(self.exchanged(dropped, ()), horizon_ns=max(self.horizon_ns, reached))

    def without_rejected(self, paths: Iterable[str]) -> Manifest:
        gone = set(paths)
        return replace(self, rejected=tuple(file for file in self.rejected if file.path not in gone))

    def to_json(self) -> str:
        return (
            codec.to_text({"format": _FORMAT, **{field.name: getattr(self, field.name) for field in fields(self)}})
            + "\n"
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """An empty manifest would make garbage of the table's files: no field may be missing."""
        values = codec.decoded(text, dict[str, Any], "manifest")
        if values.get("format") != _FORMAT:
            raise InvalidInput(f"its format is {values.get('format')}, and this version of Tidegate reads {_FORMAT}")
        return codec.complete(values, cls, "manifest")


def load(path: Path) -> Manifest:
    """An empty one where there is none yet."""
    try:
        return Manifest.from_json(path.read_text())
    except FileNotFoundError:
        return Manifest()
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from None
    except InvalidInput as error:
        raise Unavailable(
            f"{path} is damaged ({error}): move the directory {path.parent} away, and the log is landed anew"
        ) from None


def store(path: Path, manifest: Manifest) -> None:
    """The files that it names must be on stable storage already."""
    write_private(path, manifest.to_json())
