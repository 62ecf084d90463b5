"""The plan's files written and read without Spark, in batches: the same columns as those of plans on Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core import codec
from tidegate.core.errors import Unavailable
from tidegate.core.lifecycle.decide import Planned
from tidegate.core.lifecycle.tasks import ObjectTask
from tidegate.core.listings import ListedVersion
from tidegate.core.records import Bucket
from tidegate.core.shards import shard
from tidegate.pipeline.arrow_types import arrow_schema_of
from tidegate.pipeline.plan.plan_row import PlanRow
from tidegate.pipeline.plan.task_writer import TASKS

PLAN_ROWS = arrow_schema_of(PlanRow)
_GROUP_ROWS = 16_384
_BATCH_ROWS = 10_000

Row = dict[str, Any]


def plan_row(
    planned: Planned,
    bucket: Bucket,
    owner: str,
    created_ns: int,
    listed: ListedVersion | None,
) -> Row:
    """`listed` is the version that the action is about; None: it is about an upload."""
    return {
        "bucket_uid": bucket.uid,
        "bucket": bucket.name,
        "owner": owner,
        "key": planned.key,
        "version_id": planned.version_id,
        "upload_id": planned.upload_id,
        "created_ns": created_ns,
        "last_modified": listed.modified if listed is not None else None,
        "etag": listed.etag if listed is not None else None,
        "size": listed.size if listed is not None and not listed.is_marker else None,
        "effect": planned.effect.value,
        "kind": planned.kind.value,
        "rule_id": planned.rule_id,
        "action_id": planned.action_id,
        "due_ns": planned.due_ns,
        "became_due_ns": planned.became_due_ns,
        "since_ns": planned.since_ns,
        "storage_class": planned.storage_class,
        "hold": planned.hold.value if planned.hold is not None else None,
        "newest_due_ns": planned.became_due_ns,
        "shard": shard(bucket.name, planned.key),
    }


class PlanWriter:
    """One file, which is there under its name when it is whole. May be shared by threads."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "part-00000.parquet"
        self._unfinished = self._file.with_suffix(".unfinished")
        self._lock = threading.Lock()
        self._rows: list[Row] = []
        try:
            folder.mkdir(parents=True)
            self._writer = pq.ParquetWriter(self._unfinished, PLAN_ROWS, compression="zstd")
        except OSError as error:
            raise Unavailable(f"{folder} cannot be used for a plan: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self._flush()
            self._writer.close()
            if kind is None:
                self._unfinished.rename(self._file)
        except OSError as trouble:
            if kind is None:
                raise Unavailable(f"the plan {self._file} cannot be written: {trouble}") from None

    def append(self, rows: Sequence[Row]) -> None:
        """Rows of one call stay together."""
        with self._lock:
            self._rows += rows
            if len(self._rows) >= _GROUP_ROWS:
                self._flush()

    def _flush(self) -> None:
        try:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, schema=PLAN_ROWS))
        except OSError as error:
            raise Unavailable(f"the plan {self._file} cannot be written: {error}") from None
        self._rows = []


def tasks_of_plan(folder: Path, *, pass_id: str) -> Iterator[pa.RecordBatch]:
    """What of a plan is to be done, as messages (`task_writer.TASKS`). What is held waits."""
    for file in sorted(folder.glob("*.parquet")):
        try:
            for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS):
                free = batch.filter(pc.is_null(batch.column("hold")))
                if free.num_rows:
                    yield _tasks(free, pass_id)
        except (OSError, pa.ArrowException) as error:
            raise Unavailable(f"the plan {file} cannot be read: {error}") from None


def _tasks(batch: pa.RecordBatch, pass_id: str) -> pa.RecordBatch:
    keys = pc.binary_join_element_wise(batch.column("bucket_uid"), batch.column("key"), "/")
    values = pa.array([_task(row, pass_id).to_bytes().decode() for row in batch.to_pylist()], pa.string())
    return pa.RecordBatch.from_arrays([batch.column("bucket_uid"), batch.column("effect"), keys, values], schema=TASKS)


def _task(row: Row, pass_id: str) -> ObjectTask:
    """Details that are not known are left out."""
    known = {name: value for name, value in row.items() if value is not None}
    return codec.converted({**known, "pass_id": pass_id}, ObjectTask, "row of a plan")
