"""A plan in numbers: what it holds for one bucket, and what of it was published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """Actions by kind and their bytes, and by reason those that must wait. With a `problem` the plan does not have all
    that is due. `locked` are those that a lock holds, by kind, if the planner looked at locks."""

    planned: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    unresolved_keys: int = 0
    problem: str = ""
    locked: Mapping[str, int] = field(default_factory=dict)

    @property
    def actions(self) -> int:
        return sum(self.planned.values())


@dataclass(frozen=True, slots=True)
class Published:
    """By bucket uid: how many tasks the pass waits for, and how many others have under way, from this or an earlier
    pass."""

    awaited: Counter[str] = field(default_factory=Counter)
    handed_over: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.awaited.total()

    def add(self, counts: pa.RecordBatch) -> None:
        for row in counts.to_pylist():
            (self.handed_over if row["is_handed_over"] else self.awaited)[row["bucket_uid"]] += row["tasks"]
