"""From a plan's files to tasks in their topics: written by the executors, never gathered in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from tidegate import settings as settings_module
from tidegate.assembly import open_tables, open_topics
from tidegate.core.lifecycle.tasks import OBJECT_DETAILS, OBJECT_TARGET, REQUIRED
from tidegate.pipeline.plan.bucket_plan import Published
from tidegate.pipeline.plan.evaluate import PLAN_SCHEMA
from tidegate.pipeline.plan.handed_over import HandedOver
from tidegate.pipeline.plan.task_writer import TaskWriter
from tidegate.settings import Settings

_COUNTS = "bucket_uid string, is_handed_over boolean, tasks long"
# So many rows of a plan are read by one task. With several, rows must be exchanged to be counted, and read twice to be
# sorted: Spark has to learn where to cut them.
_ROWS_OF_ONE_TASK = 50_000


def tasks(plan: DataFrame, *, pass_id: str) -> DataFrame:
    """What of a plan is to be done, as messages (`task_writer.TASKS`), the values as `ObjectTask` writes them.
    What is held waits."""
    message = F.struct(
        F.col("effect").alias("action"),
        F.struct(*(F.col(name).alias(written) for name, written in OBJECT_TARGET.items())).alias("target"),
        F.struct(*(_detail(name, pass_id).alias(written) for name, written in OBJECT_DETAILS.items())).alias("details"),
    )
    return plan.where(F.col("hold").isNull()).select(
        "bucket_uid",
        "effect",
        F.concat("bucket_uid", F.lit("/"), "key").alias("key"),
        F.to_json(message).alias("value"),
    )


def read_plan(session: SparkSession, folder: Path) -> DataFrame | None:
    """The plan of a folder; None if it is empty, which is found out without Spark."""
    rows = {str(file): pq.read_metadata(file).num_rows for file in sorted(folder.glob("*.parquet"))}
    files = [file for file in rows if rows[file]]
    if not files:
        return None
    plan = session.read.schema(PLAN_SCHEMA).parquet(*files)
    return plan.coalesce(1) if sum(rows.values()) <= _ROWS_OF_ONE_TASK else plan


def publish_plan(session: SparkSession, folder: Path, settings: Settings, data: Path, *, pass_id: str) -> Published:
    """Appends the tasks of a plan to their topics and counts them. A part that fails is repeated by Spark: a task may
    come twice, and doing it twice is safe."""
    published = Published()
    plan = read_plan(session, folder)
    if plan is not None:
        append = _appender(settings_module.dump(settings), str(data))
        # In the order of the keys: objects that are neighbours in their bucket are looked at and deleted together.
        counted = tasks(plan, pass_id=pass_id).orderBy("key").mapInArrow(append, _COUNTS)
        for batch in counted.toArrow().to_batches():  # a few rows for every ten thousand tasks
            published.add(batch)
    return published


def _appender(settings: str, data: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs in the executors, over batches of columns."""

    def append(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        restored = settings_module.restore(settings)
        context = TaskContext.get()
        first = context.partitionId() if context is not None else 0
        with ExitStack() as opened:

            def open_handed_over() -> HandedOver:
                return HandedOver(opened.enter_context(closing(open_tables(restored, Path(data)))))

            topics = opened.enter_context(closing(open_topics(restored, Path(data))))
            writer = TaskWriter(topics, open_handed_over, first=first)
            yield from map(writer.append, batches)

    return append


def _detail(name: str, pass_id: str) -> Column:
    """Details that are not set are left out."""
    if name == "pass_id":
        return F.lit(pass_id)
    is_text = PLAN_SCHEMA[name].dataType == StringType()
    return F.nullif(F.col(name), F.lit("")) if is_text and name not in REQUIRED else F.col(name)
