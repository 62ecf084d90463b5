"""Versions and uploads as subjects of rules: each version's place among the versions of its key."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.core.events import NULL_VERSION, Pairs
from tidegate.core.lifecycle.subjects import VersionRole
from tidegate.core.version_attributes import VersionAttributes
from tidegate.pipeline.column_types import columns, columns_of
from tidegate.pipeline.plan.actions import NEVER_NS

IS_NULL = f"version_id IN ('', '{NULL_VERSION}')"
_IDENTITY = columns(bucket_uid=str, bucket=str, owner=str, key=str)
ATTRIBUTES = columns_of(VersionAttributes)

# One row per version. `last_modified` is the store's own text for its time, "" where the log does not know it.
VERSION_SCHEMA = StructType(
    [
        *_IDENTITY,
        *columns(version_id=str, created_ns=int, last_modified=str),
        *ATTRIBUTES,
        *columns(tags=Pairs, storage_class=str, is_marker=bool),
        *columns(retained_until_ns=int, legal_hold=bool, replication_pending=bool, tagged_ns=int, moved_ns=int),
    ]
)
UPLOAD_SCHEMA = StructType([*_IDENTITY, *columns(upload_id=str, created_ns=int)])
# One row per version or upload, with what the rules ask of the other versions of its key. `newer` is the number of
# newer noncurrent versions; `newer_ns` the times at which the nearest newer versions were created, nearest last.
# A legal hold is a lock without end. `null_locked_until_ns` and `null_pending` are those of the key's null version.
SUBJECT_SCHEMA = StructType(
    [
        *_IDENTITY,
        *columns(version_id=str, upload_id=str, place=str, created_ns=int, last_modified=str),
        *ATTRIBUTES,
        *columns(tags=Pairs, storage_class=str, noncurrent_since_ns=int, newer=int, newer_ns=list[int]),
        *columns(tagged_ns=int, moved_ns=int, locked_until_ns=int, replication_pending=bool),
        *columns(null_locked_until_ns=int, null_pending=bool),
    ]
)


def placed(versions: DataFrame, newest_first: Sequence[Column], *, most_newer: int) -> DataFrame:
    """Subjects of versions (`VERSION_SCHEMA`), all of each key. `newest_first` is the order of a key's versions, and
    `most_newer` the largest number of noncurrent versions that an action keeps."""
    of_key = Window.partitionBy("bucket_uid", "key")
    in_order = of_key.orderBy(*newest_first)
    before = in_order.rowsBetween(-(most_newer + 1), -1)
    rows = versions.select(
        *versions.columns,
        (F.row_number().over(in_order) - 1).alias("position"),
        F.lag("created_ns").over(in_order).alias("noncurrent_since_ns"),
        (F.collect_list("created_ns").over(before) if most_newer else _no_times()).alias("newer_ns"),
        F.count(F.lit(1)).over(of_key).alias("count"),
        F.max(F.when(is_null(), _locked_until_ns())).over(of_key).alias("null_locked_until_ns"),
        F.max(is_null() & F.col("replication_pending")).over(of_key).alias("null_pending"),
    )
    return _subjects(rows)


def alone(versions: DataFrame) -> DataFrame:
    """Subjects of versions of which every key has one: those of buckets that never had versioning."""
    rows = versions.select(
        *versions.columns,
        F.lit(0).alias("position"),
        F.lit(None).cast("long").alias("noncurrent_since_ns"),
        _no_times().alias("newer_ns"),
        F.lit(1).alias("count"),
        F.when(is_null(), _locked_until_ns()).alias("null_locked_until_ns"),
        (is_null() & F.col("replication_pending")).alias("null_pending"),
    )
    return _subjects(rows)


def of_uploads(uploads: DataFrame) -> DataFrame:
    """Subjects of uploads (`UPLOAD_SCHEMA`)."""
    known = {
        "upload_id": F.col("upload_id"),
        "created_ns": F.col("created_ns"),
        "place": F.lit(VersionRole.UPLOAD.value),
        "version_id": F.lit(""),
        "last_modified": F.lit(""),
        "etag": F.lit(""),
        "storage_class": F.lit(""),
    } | {field.name: F.col(field.name) for field in _IDENTITY}
    return uploads.select(
        *(known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in SUBJECT_SCHEMA.fields)
    )


def is_null() -> Column:
    """Whether a row is of the null version of its key, however the bucket's state makes events and listings name it."""
    return F.expr(IS_NULL)


def _subjects(rows: DataFrame) -> DataFrame:
    is_marker, position = F.col("is_marker"), F.col("position")
    place = (
        F.when((position > 0) & is_marker, VersionRole.NONCURRENT_MARKER.value)
        .when(position > 0, VersionRole.NONCURRENT.value)
        .when(~is_marker, VersionRole.CURRENT.value)
        .when(F.col("count") == 1, VersionRole.SOLE_MARKER.value)
        .otherwise(VersionRole.COVERING_MARKER.value)
    )
    known = {name: F.col(name) for name in rows.columns} | {
        "upload_id": F.lit(""),
        "place": place,
        "size": F.when(~is_marker, F.col("size")),
        "newer": F.greatest(position - 1, F.lit(0)),
        "locked_until_ns": _locked_until_ns(),
    }
    return rows.select(*(known[field.name].cast(field.dataType).alias(field.name) for field in SUBJECT_SCHEMA.fields))


def _locked_until_ns() -> Column:
    return F.when(F.col("legal_hold"), NEVER_NS).otherwise(F.col("retained_until_ns"))


def _no_times() -> Column:
    return F.lit(None).cast(SUBJECT_SCHEMA["newer_ns"].dataType)
