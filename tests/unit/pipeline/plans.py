"""Plans of Spark and plans of the core as values that can be compared, and many generated cases at once."""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum

from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql.types import IntegerType, StructField, StructType

from tidegate.core.lifecycle.assess import Effect, Hold
from tidegate.core.lifecycle.decide import Planned
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.pipeline.log.event_columns import converted
from tidegate.pipeline.plan.version_roles import UPLOAD_SCHEMA, VERSION_SCHEMA

_SEQUENCED = StructType([*VERSION_SCHEMA.fields, StructField("sequence", IntegerType())])
_FIELDS = [field.name for field in fields(Planned)]


def generated(strategy, count):
    """So many examples of a strategy. They are compared in one frame, since a frame costs more than an example."""
    cases = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(case):
        cases.append(case)

    collect()
    return cases


def of_core(uid, planned):
    """Each entry of the core's plan, as `of_spark` gives it."""
    return [(uid, *(_plain(getattr(entry, name)) for name in _FIELDS)) for entry in planned]


def _plain(value):
    return value.value if isinstance(value, StrEnum) else value


def of_spark(plan):
    rows = plan.select("bucket_uid", *_FIELDS).collect()
    return [tuple(row) for row in rows]


def events_frame(spark, events):
    """The events as the log table has them."""
    values = [(0, offset, event.to_bytes()) for offset, event in enumerate(events)]
    return converted(spark.createDataFrame(values, "topic_partition int, topic_offset long, value binary"))


def versions_frame(spark, cases):
    """`cases`: (bucket uid, key, versions newest first)."""
    rows = [
        (
            uid,
            "b",
            "o",
            key,
            version.version_id,
            version.created_ns,
            "",
            version.size,
            version.etag,
            dict(version.tags),
            version.storage_class,
            version.is_marker,
            version.retained_until_ns,
            version.legal_hold,
            version.replication_pending,
            version.tagged_ns,
            version.moved_ns,
            sequence,
        )
        for uid, key, versions in cases
        for sequence, version in enumerate(versions)
    ]
    return spark.createDataFrame(rows, _SEQUENCED)


def uploads_frame(spark, cases):
    """`cases`: (bucket uid, key, uploads)."""
    rows = [
        (uid, "b", "o", key, upload.upload_id, upload.created_ns) for uid, key, uploads in cases for upload in uploads
    ]
    return spark.createDataFrame(rows, UPLOAD_SCHEMA)


def entries_of_spark(plan):
    """(bucket uid, entry as the core has it)."""
    kinds = {"effect": Effect, "kind": ActionKind, "hold": lambda hold: hold and Hold(hold)}
    return [
        (uid, Planned(**{name: kinds.get(name, _same)(value) for name, value in zip(_FIELDS, values, strict=True)}))
        for uid, *values in of_spark(plan)
    ]


def _same(value):
    return value
