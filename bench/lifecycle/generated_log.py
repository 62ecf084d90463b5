"""A log table of any size, generated in place: what the gateway would have journalled over months, without a topic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.events import EventKind
from tidegate.core.lifecycle.assess import BucketContext
from tidegate.core.lifecycle.rules import Action, ActionKind, Filter, Rule, RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.pipeline.log.event_columns import FILE_SCHEMA, NS_PER_DAY, bucket_day_of, day_of, key_hash_of, shard_of
from tidegate.pipeline.log.log_table import LogTable, write_by_day
from tidegate.pipeline.plan.actions import RuledBucket

BUCKETS = 20
RULES_PER_BUCKET = 5
DAYS = 120
# A few buckets have versions; each version is a key's put under an id of its own.
_VERSIONED = 4
_FIRST_DAY = 20_000
# So many of a hundred events concern a key that there may be already; so many of those delete it.
_AGAIN_OF_100, _DELETES_OF_100 = 20, 25
_EVENTS_PER_PARTITION = 500_000


@dataclass(frozen=True, slots=True)
class GeneratedLog:
    """`until_ns` is the present: the last midnight of the log, so that a day is newly due."""

    table: LogTable
    events: int
    buckets: tuple[RuledBucket, ...]
    until_ns: int


def generate(session: SparkSession, data: Path, events: int) -> GeneratedLog:
    table = LogTable(data)
    rows = _rows(session.range(0, events, 1, 1 + events // _EVENTS_PER_PARTITION), events)
    with table.changing() as known:
        written = table.fresh_work("generated")
        write_by_day(rows, written)
        files, _ = table.take_in(written)
        table.commit(known.landed((events,), files, ()))
    return GeneratedLog(table, events, tuple(map(_bucket, range(BUCKETS))), (_FIRST_DAY + DAYS) * NS_PER_DAY)


def _bucket(number: int) -> RuledBucket:
    """Five prefixes, each with days of its own; with versioning every other rule is one for noncurrent versions."""
    versioning = Versioning.ENABLED if number < _VERSIONED else Versioning.OFF
    rules = []
    for rule in range(RULES_PER_BUCKET):
        is_noncurrent = versioning is Versioning.ENABLED and rule % 2
        kind = ActionKind.NONCURRENT_DAYS if is_noncurrent else ActionKind.EXPIRATION_DAYS
        days = 7 + 20 * rule + number
        rules.append(Rule(f"rule-{rule}", True, Filter(prefix=f"p{rule}/"), (Action(kind, days=days),)))
    return RuledBucket(f"uid-{number:02d}", RuleSet(tuple(rules)), BucketContext(versioning))


def _rows(numbers: DataFrame, events: int) -> DataFrame:
    number = F.col("id")
    drawn = F.pmod(F.xxhash64(number), F.lit(10_000))
    is_again = (drawn < 100 * _AGAIN_OF_100) & (number > 0)
    earlier = F.pmod(F.xxhash64(number, F.lit("earlier")), F.greatest(number, F.lit(1)))
    drafts = numbers.select(
        (F.lit(_FIRST_DAY * NS_PER_DAY) + number * (DAYS * NS_PER_DAY // events)).alias("ts_ns"),
        F.when(is_again, earlier).otherwise(number).alias("object"),
        (drawn < _AGAIN_OF_100 * _DELETES_OF_100).alias("deletes"),
        number.alias("topic_offset"),
    )
    bucket_number = F.pmod(F.col("object"), F.lit(BUCKETS))
    is_versioned = bucket_number < _VERSIONED
    operation = (
        F.when(~F.col("deletes"), EventKind.PUT.value)
        .when(is_versioned, EventKind.DELETE_MARKER.value)
        .otherwise(EventKind.DELETE.value)
    )
    rule = F.pmod(F.floor(F.col("object") / BUCKETS), F.lit(RULES_PER_BUCKET))
    known: dict[str, Column] = {
        "ts_ns": F.col("ts_ns"),
        "operation": operation,
        "pool": F.lit("pool"),
        "bucket": F.format_string("bucket-%02d", bucket_number),
        "bucket_uid": F.format_string("uid-%02d", bucket_number),
        "owner": F.lit("owner"),
        "key": F.format_string("p%d/%03d/object-%d.bin", rule, F.pmod(F.col("object"), F.lit(997)), F.col("object")),
        "version_id": F.when(is_versioned, F.format_string("v%016x", F.col("topic_offset"))).otherwise(""),
        "size": F.when(~F.col("deletes"), F.pmod(F.xxhash64("object", F.lit("size")), F.lit(1 << 20))),
        "etag": F.when(~F.col("deletes"), F.md5(F.col("topic_offset").cast("string"))).otherwise(""),
        "tags": F.create_map(),
        "storage_class": F.lit(""),
        "upload_id": F.lit(""),
        "attributes": F.create_map(),
        "source": F.lit("gateway"),
        "topic_partition": F.lit(0),
        "topic_offset": F.col("topic_offset"),
    }
    rows = drafts.select(*(column.alias(name) for name, column in known.items()))
    rows = rows.withColumn("key_hash", key_hash_of(F.col("bucket"), F.col("key")))
    rows = rows.withColumn("shard", shard_of(F.col("key_hash")))
    rows = rows.withColumn("bucket_day", bucket_day_of(F.col("bucket_uid"), F.col("ts_ns")))
    fields = [
        (F.col(field.name) if field.name in rows.columns else F.lit(None)).cast(field.dataType).alias(field.name)
        for field in FILE_SCHEMA.fields
    ]
    return rows.select(*fields, day_of(F.col("ts_ns")).alias("day"))
