"""What keys hold after their events: versions and open uploads, worked out from the metadata log.

A fold of events, over whole frames. An *instance* is one life of a version: from the put or
marker that made it to the delete, or the next put under the same version id, that ended it. On top of that fold, each
version gets the times that tell since when an action is due: when it was last tagged, and when the removal of another
version gave it its present place.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidegate.core.events import NULL_VERSION, EventKind
from tidegate.core.version_attributes import VersionAttributes
from tidegate.pipeline.plan.version_roles import UPLOAD_SCHEMA, VERSION_SCHEMA

_MAKES = (EventKind.PUT.value, EventKind.DELETE_MARKER.value)
_KEY = ("bucket_uid", "key")
_INSTANCE = (*_KEY, "version", "created_ns")

# What must be read of the log.
EVENT_COLUMNS = (
    "ts_ns",
    "operation",
    "bucket",
    "bucket_uid",
    "owner",
    "key",
    "version_id",
    *VersionAttributes.__struct_fields__,
    "tags",
    "storage_class",
    "upload_id",
)


def versions_of(events: DataFrame, *, with_tags: bool = True, with_classes: bool = True) -> DataFrame:
    """The versions that exist (`VERSION_SCHEMA`); the null version is "null" everywhere.

    `events` must hold every event of its keys; the same event may be there twice. Where no rule asks for tags, what
    was tagged later need not be looked for; where none moves objects, nor in which storage class they are by now.
    """
    # Brought together by key once, they need not be moved again for anything that is done per key or version.
    by_key = events.repartition(*_KEY)
    instances = _instances(by_key)
    alive = _with_moves(instances).where(F.col("ended_ns").isNull())
    if with_classes:
        alive = _with_classes(alive, by_key)
    known = {"version_id": F.col("version"), "tagged_ns": F.lit(0), "moved_ns": F.coalesce("moved_ns", F.lit(0))}
    if not with_tags:
        return _versions(alive, known | {"tags": F.create_map()})
    known |= {"tags": F.coalesce("set_tags", "tags"), "tagged_ns": F.coalesce("tagged_ns", F.lit(0))}
    return _versions(alive.join(_last_tags(by_key, instances), list(_INSTANCE), "left"), known)


def objects_of(puts: DataFrame) -> DataFrame:
    """The versions (`VERSION_SCHEMA`) that puts made, each the only one of its key, where no rule asks for tags. Their
    storage classes are those that the rows name."""
    known = {"version_id": F.lit(NULL_VERSION), "tags": F.create_map(), "tagged_ns": F.lit(0), "moved_ns": F.lit(0)}
    return _versions(puts.withColumnRenamed("ts_ns", "created_ns"), known)


def _versions(rows: DataFrame, known: dict[str, Column]) -> DataFrame:
    """What an event tells of the version that it made. What the log does not know is left open."""
    columns = {name: F.col(name) for name in rows.columns} | {
        "last_modified": F.lit(""),
        "size": F.coalesce("size", F.lit(0)),
        "is_marker": F.col("operation") == EventKind.DELETE_MARKER.value,
        "retained_until_ns": F.lit(None),
        "legal_hold": F.lit(False),
        "replication_pending": F.lit(False),
    }
    columns |= known
    return rows.select(*(columns[field.name].cast(field.dataType).alias(field.name) for field in VERSION_SCHEMA.fields))


def uploads_of(events: DataFrame) -> DataFrame:
    """The uploads that are open (`UPLOAD_SCHEMA`)."""
    last = (
        events.where(F.col("upload_id") != "")
        .groupBy(*_KEY, "upload_id")
        .agg(
            F.max_by(F.struct("operation", "bucket", "owner"), "ts_ns").alias("last"),
            F.max("ts_ns").alias("created_ns"),
        )
    )
    is_open = F.col("last.operation") == EventKind.UPLOAD_STARTED.value
    return last.where(is_open).select("*", "last.bucket", "last.owner").select(*UPLOAD_SCHEMA.names)


def _version(version_id: Column) -> Column:
    """The null version is one and the same, however the bucket's state makes its events name it."""
    return F.when(version_id == "", NULL_VERSION).otherwise(version_id)


def _instances(events: DataFrame) -> DataFrame:
    """Every version that there ever was, with `ended_ns` where it is gone."""
    in_time = Window.partitionBy(*_KEY, "version").orderBy("ts_ns")
    changes = (
        events.where(F.col("operation").isin(*_MAKES, EventKind.DELETE.value))
        .withColumn("version", _version(F.col("version_id")))
        .dropDuplicates([*_KEY, "version", "ts_ns"])
        .withColumn("ended_ns", F.lead("ts_ns").over(in_time))
    )
    return changes.where(F.col("operation").isin(*_MAKES)).withColumnRenamed("ts_ns", "created_ns")


def _with_moves(instances: DataFrame) -> DataFrame:
    """Adds `moved_ns`: the end of the last version that stood between this one and its present successor; for a
    marker that is alone now, the end of the last other version."""
    of_key = Window.partitionBy(*_KEY)
    newest_first = of_key.orderBy(F.col("created_ns").desc())
    is_alive = F.col("ended_ns").isNull()
    newer_alive = F.sum(is_alive.cast("int")).over(newest_first.rowsBetween(Window.unboundedPreceding, -1))
    rows = instances.select(
        "*",
        F.coalesce(newer_alive, F.lit(0)).alias("newer_alive"),
        F.sum(is_alive.cast("int")).over(of_key).alias("all_alive"),
        F.max("ended_ns").over(of_key).alias("last_end_ns"),
    )
    between = Window.partitionBy(*_KEY, "newer_alive")
    is_sole_marker = (F.col("operation") == EventKind.DELETE_MARKER.value) & (F.col("all_alive") == 1)
    moved_ns = F.when(is_sole_marker, F.col("last_end_ns")).otherwise(F.max("ended_ns").over(between))
    return rows.withColumn("moved_ns", moved_ns)


def _with_classes(alive: DataFrame, events: DataFrame) -> DataFrame:
    """With the storage classes to which the versions were moved since they were made. Such an event tells nothing else
    of its version, which keeps its time."""
    moves = events.where(F.col("operation") == EventKind.MOVED.value).select(
        *_KEY,
        _version(F.col("version_id")).alias("version"),
        F.col("ts_ns").alias("entered_ns"),
        F.col("storage_class").alias("entered"),
    )
    entered = (
        moves.join(alive.select(*_INSTANCE), [*_KEY, "version"])
        .where(F.col("entered_ns") > F.col("created_ns"))
        .groupBy(*_INSTANCE)
        .agg(F.max_by("entered", "entered_ns").alias("entered"))
    )
    joined = alive.join(entered, list(_INSTANCE), "left")
    return joined.withColumn("storage_class", F.coalesce("entered", "storage_class")).drop("entered")


def _last_tags(events: DataFrame, instances: DataFrame) -> DataFrame:
    """Per instance that was ever tagged after its creation: `tagged_ns` and `set_tags`.

    A tagging event without a version id means the version that was current then.
    """
    taggings = events.where(F.col("operation") == EventKind.TAGGING.value).select(
        *_KEY,
        F.col("version_id").alias("named"),
        F.col("ts_ns").alias("tagged_ns"),
        F.col("tags").alias("set_tags"),
    )
    lives = instances.select(*_INSTANCE, "ended_ns")
    then = (F.col("created_ns") < F.col("tagged_ns")) & (
        F.col("ended_ns").isNull() | (F.col("ended_ns") > F.col("tagged_ns"))
    )
    meant = (F.col("named") == "") | (F.col("named") == F.col("version"))
    current = F.max_by(F.struct("version", "created_ns"), "created_ns").alias("instance")
    applied = (
        taggings.join(lives, list(_KEY))
        .where(then & meant)
        .groupBy(*_KEY, "tagged_ns")
        .agg(current, F.any_value("set_tags").alias("set_tags"))
    )
    last = applied.groupBy(*_KEY, "instance").agg(
        F.max_by("set_tags", "tagged_ns").alias("set_tags"), F.max("tagged_ns").alias("tagged_ns")
    )
    return last.select(*_KEY, "instance.version", "instance.created_ns", "tagged_ns", "set_tags")
