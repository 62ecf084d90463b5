"""What is counted of replication, in the tables.

`rc:SITE/UID/PARTITION`: the versions of a bucket that have arrived at a site, and are there still to the source's
knowledge. `rm:SITE/INTERVAL/PARTITION`: what happened in five minutes. PARTITION is that of the status topic, so that
each counter has one writer; readers add them up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from tidegate.core.codec import JsonRecord

COUNTS = "rc:"
INTERVALS = "rm:"
INTERVAL_SECONDS = 300
# So many intervals are kept: 25 hours.
KEPT_INTERVALS = 300


@dataclass(frozen=True, slots=True)
class ArrivedCount(JsonRecord):
    completed: int = 0
    completed_bytes: int = 0

    def plus(self, versions: int, size: int) -> Self:
        return type(self)(self.completed + versions, self.completed_bytes + size)


@dataclass(frozen=True, slots=True)
class IntervalCount(JsonRecord):
    completions: int = 0
    completion_bytes: int = 0
    failures: int = 0
    failure_bytes: int = 0

    def plus(self, other: Self) -> Self:
        return type(self)(
            self.completions + other.completions,
            self.completion_bytes + other.completion_bytes,
            self.failures + other.failures,
            self.failure_bytes + other.failure_bytes,
        )


class ArrivedKey(NamedTuple):
    site: str
    bucket_uid: str
    partition: int

    @property
    def entry(self) -> str:
        return f"{COUNTS}{self.site}/{self.bucket_uid}/{self.partition}"

    @classmethod
    def of_entry(cls, entry: str) -> Self:
        site, uid, partition = entry.removeprefix(COUNTS).split("/")
        return cls(site, uid, int(partition))


class IntervalKey(NamedTuple):
    """`number` is that of the interval since 1970."""

    site: str
    number: int
    partition: int

    @property
    def entry(self) -> str:
        return f"{INTERVALS}{self.site}/{self.number:08}/{self.partition}"

    @classmethod
    def of_entry(cls, entry: str) -> Self:
        site, number, partition = entry.removeprefix(INTERVALS).split("/")
        return cls(site, int(number), int(partition))


def interval_of(now: float) -> int:
    return int(now // INTERVAL_SECONDS)
