"""From a plan's files to object tasks in the topic: written by the executors, never gathered in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import settings as settings_module
from tidegate.assembly import open_topics
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC
from tidegate.pipeline.plan.evaluate import PLAN_SCHEMA
from tidegate.ports import Record
from tidegate.settings import Settings

_APPEND_RECORDS = 1000
_COUNTS = pa.schema([("bucket_uid", pa.string()), ("tasks", pa.int64())])


def tasks(plan: DataFrame, *, pass_id: str) -> DataFrame:
    """What of a plan is to be done, as messages: bucket_uid, key (of the record) and value, as `ObjectTask` writes it.
    What is held waits; transitions that nothing carries out are only shown."""
    message = F.struct(
        F.col("effect").alias("action"),
        F.struct("owner", "bucket", "key", F.col("version_id").alias("version")).alias("target"),
        F.struct(
            F.col("bucket_uid").alias("bucketUid"),
            F.lit(pass_id).alias("passId"),
            F.col("kind"),
            F.col("rule_id").alias("ruleId"),
            F.col("action_id").alias("actionId"),
            F.col("due_ns").alias("dueAtNs"),
            F.col("became_due_ns").alias("becameDueAtNs"),
            F.col("since_ns").alias("sinceNs"),
            F.col("created_ns").alias("createdAtNs"),
            _if_any("last_modified").alias("lastModified"),
            _if_any("etag").alias("etag"),
            F.col("size"),
            _if_any("storage_class").alias("storageClass"),
            _if_any("upload_id").alias("uploadId"),
        ).alias("details"),
    )
    return plan.where(F.col("hold").isNull() & F.col("acts")).select(
        "bucket_uid",
        F.concat("bucket_uid", F.lit("/"), "key").alias("key"),
        F.to_json(message).alias("value"),
    )


def read_plan(session: SparkSession, folder: Path) -> DataFrame | None:
    """The plan of a folder; None if it is empty, which is found out without Spark."""
    files = [str(file) for file in sorted(folder.glob("*.parquet")) if pq.read_metadata(file).num_rows]
    return session.read.schema(PLAN_SCHEMA).parquet(*files) if files else None


def publish_plan(
    session: SparkSession,
    folder: Path,
    settings: Settings,
    data: Path,
    *,
    pass_id: str,
    topic: str = OBJECT_TASKS_TOPIC,
) -> dict[str, int]:
    """Appends the tasks of a plan to the topic and gives their number per bucket uid. A part that fails is repeated by
    Spark: a task may come twice, and doing it twice is safe."""
    plan = read_plan(session, folder)
    if plan is None:
        return {}
    append = _appender(settings_module.dump(settings), str(data), topic)
    # In the order of the keys: objects that are neighbours in their bucket are looked at and deleted together.
    counted = tasks(plan, pass_id=pass_id).orderBy("key").mapInArrow(append, "bucket_uid string, tasks long")
    published: Counter[str] = Counter()
    for row in counted.collect():  # a few for every ten thousand tasks
        published[row["bucket_uid"]] += row["tasks"]
    return dict(published)


def _appender(settings: str, data: str, topic: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs in the executors, over batches of columns."""

    def append(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topics = open_topics(settings_module.restore(settings), Path(data))
        try:
            for batch in batches:
                for start in range(0, batch.num_rows, _APPEND_RECORDS):
                    part = batch.slice(start, _APPEND_RECORDS)
                    # One key for all, so that neighbours stay together in a partition of the topic.
                    first = part.column("key")[0].as_py()
                    topics.append(topic, [Record(first, value.encode()) for value in part.column("value").to_pylist()])
                yield _counted(batch.column("bucket_uid"))
        finally:
            topics.close()

    return append


def _counted(uids: pa.Array) -> pa.RecordBatch:
    counts = pc.value_counts(uids)
    return pa.RecordBatch.from_arrays([counts.field("values"), counts.field("counts")], schema=_COUNTS)


def _if_any(name: str) -> Column:
    """Details that are not set are left out."""
    return F.nullif(F.col(name), F.lit(""))
