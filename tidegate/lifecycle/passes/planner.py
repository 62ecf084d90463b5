"""What a pass asks of a planner: to find what is due, to write it down, and to publish it.

There are two, and they make the same plan: one from the metadata log, on Spark, and one by listing every bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.passes.bucket_pass import BucketPass, PassClock
from tidegate.lifecycle.passes.pass_watch import PassWatch
from tidegate.pipeline.plan.bucket_plan import Published
from tidegate.ports import Tables, Topics
from tidegate.settings import Settings


@dataclass(frozen=True, slots=True)
class PassContext:
    """What passes work with; `url` is the S3 endpoint, and `data` the data directory."""

    tables: Tables
    topics: Topics
    stores: Stores
    settings: Settings
    data: Path
    url: str


@dataclass(frozen=True, slots=True)
class Landing:
    """Up to when the metadata log was taken in, since when it has everything (0: from the first), and how many events
    were new. What a planner does not take in sets cursors back when it is landed later."""

    until_ns: int
    horizon_ns: int
    events: int = 0


class Planner(Protocol):
    """For one thread; only `cancel` and `kill` may be called by another one."""

    def land(self, *, now_ns: int, retention_ns: int) -> Landing:
        """Takes in what is new in the metadata log, and forgets what is too old for it (0: nothing)."""

    def plan(self, buckets: Sequence[BucketPass], times: PassClock, folder: Path, watch: PassWatch) -> list[BucketPass]:
        """Writes the plan to the folder, which must not exist. A bucket that cannot be looked into is a problem of that
        bucket only."""

    def publish(self, folder: Path, *, pass_id: str, watch: PassWatch) -> Published:
        """Appends the plan's tasks to their topics."""

    def tidy(self) -> None:
        """What is worth doing once a pass has ended well."""

    def rest(self) -> None:
        """While no pass runs; called again and again."""

    def cancel(self) -> None:
        """Ends what runs, so that the pass sees why."""

    def kill(self) -> None:
        """Ends everything at once."""


OpenPlanner = Callable[[PassContext], Planner]
