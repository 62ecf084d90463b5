"""The plan of a pass, read from the files that the pass left: sums by rule, and the first entries. Never the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from tidegate.core.errors import Unavailable
from tidegate.lifecycle.queries.moments import moment_of

PLANS = "passes"
PLAN = "plan"
_SUMMED = ("bucket", "rule_id", "kind", "effect", "hold")
_SHOWN = ("bucket", "key", "version_id", "upload_id", "effect", "kind", "rule_id", "hold", "due_ns", "size")
_BATCH_ROWS = 65536


def plan_folder(data: Path, pass_id: str) -> Path:
    """Where the plan of a pass lies; `data` is the data directory."""
    return data / PLANS / pass_id / PLAN


class PlannedActions(BaseModel):
    """Actions of one kind by one rule in one bucket."""

    bucket: str
    rule_id: str
    kind: str = Field(examples=["ExpirationDays"])
    action: str = Field(examples=["deleteObject"])
    held: str = Field(description="What they wait for instead of being taken; empty: nothing.")
    count: int
    bytes: int


class PlanEntry(BaseModel):
    """One action on one version or upload."""

    bucket: str
    key: str
    version_id: str
    upload_id: str
    action: str
    kind: str
    rule_id: str
    held: str
    due_at: datetime
    size: int | None


class PlanFiles:
    """A pass that planned nothing has no files."""

    def __init__(self, data: Path, pass_id: str) -> None:
        self._folder = plan_folder(data, pass_id)

    def sums(self) -> list[PlannedActions]:
        import pyarrow as pa  # only here: it takes long to load, and few commands need it

        parts = [
            batch.group_by(list(_SUMMED)).aggregate([("size", "sum"), ("kind", "count")])
            for batch in map(pa.Table.from_batches, ([batch] for batch in self._batches((*_SUMMED, "size"))))
        ]
        if not parts:
            return []
        total = pa.concat_tables(parts).group_by(list(_SUMMED)).aggregate([("size_sum", "sum"), ("kind_count", "sum")])
        found = [
            PlannedActions(
                bucket=row["bucket"],
                rule_id=row["rule_id"],
                kind=row["kind"],
                action=row["effect"],
                held=row["hold"] or "",
                count=row["kind_count_sum"],
                bytes=row["size_sum_sum"] or 0,
            )
            for row in total.to_pylist()
        ]
        return sorted(found, key=lambda line: (line.bucket, line.rule_id, line.kind, line.action, line.held))

    def first(self, count: int) -> list[PlanEntry]:
        found: list[PlanEntry] = []
        for batch in self._batches(_SHOWN):
            found += [_entry(row) for row in batch.slice(0, count - len(found)).to_pylist()]
            if len(found) == count:
                break
        return found

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow.lib
        import pyarrow.parquet as pq

        # Below are listings, while the plan is being made.
        for file in sorted(self._folder.glob("*.parquet")):
            try:
                yield from pq.ParquetFile(file).iter_batches(_BATCH_ROWS, columns=list(columns))
            except FileNotFoundError:  # the plans of old passes are removed
                continue
            except (OSError, pyarrow.lib.ArrowException) as error:
                raise Unavailable(f"the plan {file} cannot be read: {error}") from None


def _entry(row: dict[str, Any]) -> PlanEntry:
    return PlanEntry(
        bucket=row["bucket"],
        key=row["key"],
        version_id=row["version_id"] or "",
        upload_id=row["upload_id"] or "",
        action=row["effect"],
        kind=row["kind"],
        rule_id=row["rule_id"],
        held=row["hold"] or "",
        due_at=moment_of(row["due_ns"]),
        size=row["size"],
    )
