"""From a plan to object tasks in the topic: written by the executors, never gathered in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate import settings as settings_module
from tidegate.assembly import open_topics
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC
from tidegate.ports import Record
from tidegate.settings import Settings

_APPEND_RECORDS = 1000
_COUNTS = pa.schema([("bucket_uid", pa.string()), ("tasks", pa.int64())])


def tasks(plan: DataFrame, *, pass_id: str) -> DataFrame:
    """What of a plan is not held, as messages: bucket_uid, key (of the record) and value, as `ObjectTask` writes it."""
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
            F.col("created_ns").alias("createdAtNs"),
            _if_any("last_modified").alias("lastModified"),
            _if_any("etag").alias("etag"),
            F.col("size"),
            _if_any("storage_class").alias("storageClass"),
            _if_any("upload_id").alias("uploadId"),
        ).alias("details"),
    )
    return plan.where(F.col("hold").isNull()).select(
        "bucket_uid",
        F.concat("bucket_uid", F.lit("/"), "key").alias("key"),
        F.to_json(message).alias("value"),
    )


def publish(messages: DataFrame, settings: Settings, data: Path, *, topic: str = OBJECT_TASKS_TOPIC) -> dict[str, int]:
    """Appends the messages to the topic and gives their number per bucket uid. A part that fails is repeated by Spark:
    a task may come twice, and doing it twice is safe."""
    append = _appender(settings_module.dump(settings), str(data), topic)
    written = messages.mapInArrow(append, "bucket_uid string, tasks long")
    counted = written.groupBy("bucket_uid").agg(F.sum("tasks").alias("tasks")).collect()
    return {row.bucket_uid: row.tasks for row in counted}


def _appender(settings: str, data: str, topic: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs in the executors, over batches of columns."""

    def append(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topics = open_topics(settings_module.restore(settings), Path(data))
        try:
            for batch in batches:
                for start in range(0, batch.num_rows, _APPEND_RECORDS):
                    part = batch.slice(start, _APPEND_RECORDS)
                    keys, values = part.column("key").to_pylist(), part.column("value").to_pylist()
                    topics.append(topic, [Record(key, value.encode()) for key, value in zip(keys, values, strict=True)])
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
