"""The columns of the log table, and how records of the topic become them: expressions only."""

from __future__ import annotations

from msgspec import structs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructField, StructType

from tidegate.core.events import Event, EventKind
from tidegate.core.shards import BUCKET_BITS
from tidegate.pipeline.arrow_types import Int32
from tidegate.pipeline.column_types import columns, columns_of

NS_PER_DAY = 86_400 * 1_000_000_000
REJECTED = "rejected"

_EVENT = StructType(columns_of(Event))
_FIELDS = {field.name: field for field in structs.fields(Event)}
_REQUIRED = [name for name, field in _FIELDS.items() if field.required]
_CORRUPT = "_corrupt_record"

# What a file of the table holds; the day is in its directory's name. `bucket_day` (`bucket_day_of`) says in one number
# what the pages of a file differ by. A file that is older than a column has nulls there.
FILE_SCHEMA = StructType(
    [
        *_EVENT.fields,
        *columns(shard=Int32, key_hash=int, bucket_day=int, topic_partition=Int32, topic_offset=int),
    ]
)
TABLE_SCHEMA = StructType([*FILE_SCHEMA.fields, *columns(day=str)])
# What the topic's records are staged as.
STAGED_SCHEMA = StructType(columns(topic_partition=Int32, topic_offset=int, value=bytes))


def converted(staged: DataFrame) -> DataFrame:
    """Records as rows of the table. Those that are no events have `REJECTED` for a day, their value and a reason."""
    schema = StructType([*_EVENT.fields, *columns(**{_CORRUPT: str})])
    parsed = staged.select(
        *STAGED_SCHEMA.names,
        F.from_json(F.col("value").cast("string"), schema, {"columnNameOfCorruptRecord": _CORRUPT}).alias("event"),
    ).withColumn("reason", _why_rejected(F.col("event")))
    is_event = F.col("reason").isNull()
    values = [F.when(is_event, _with_default(field)).alias(field.name) for field in _EVENT.fields]
    rows = parsed.select(*values, *STAGED_SCHEMA.names, "reason")
    rows = rows.withColumn("key_hash", key_hash_of(F.col("bucket"), F.col("key")))
    return rows.select(
        *_EVENT.names,
        shard_of(F.col("key_hash")).alias("shard"),
        "key_hash",
        bucket_day_of(F.col("bucket_uid"), F.col("ts_ns")).alias("bucket_day"),
        "topic_partition",
        "topic_offset",
        F.coalesce(day_of(F.col("ts_ns")), F.lit(REJECTED)).alias("day"),
        F.when(~is_event, F.col("value")).alias("value"),
        "reason",
    )


def key_hash_of(bucket: Column, key: Column) -> Column:
    """As `tidegate.core.shards.key_hash`; the negative base makes the result signed."""
    digest = F.sha2(F.concat(bucket, F.lit("/"), key), 256)
    return F.conv(F.substring(digest, 1, 16), 16, -10).cast("long")


def bucket_day_of(bucket_uid: Column, ts_ns: Column) -> Column:
    """As `tidegate.core.shards.bucket_day`."""
    digits = F.substring(F.sha2(bucket_uid, 256), 1, BUCKET_BITS // 4)
    return F.shiftleft(day_number_of(ts_ns).cast("long"), BUCKET_BITS).bitwiseOR(F.conv(digits, 16, 10).cast("long"))


def in_one_bucket(bucket_day: Column, other: Column) -> Column:
    """Whether both are of one bucket, whatever their days."""
    return bucket_day.bitwiseXOR(other).bitwiseAND(F.lit((1 << BUCKET_BITS) - 1)) == 0


def shard_of(key_hash: Column) -> Column:
    """As `tidegate.core.shards.shard`: the hash's top four bits."""
    return F.shiftrightunsigned(key_hash, 60).cast("int")


def day_of(ts_ns: Column) -> Column:
    """The day in UTC: YYYY-MM-DD."""
    return F.date_from_unix_date(day_number_of(ts_ns)).cast("string")


def day_number_of(ts_ns: Column) -> Column:
    """Days since 1970."""
    return ((ts_ns - F.pmod(ts_ns, F.lit(NS_PER_DAY))) / NS_PER_DAY).cast("int")


def _why_rejected(event: Column) -> Column:
    missing = [F.when(event[name].isNull(), F.lit(f"it has no {name}")) for name in _REQUIRED]
    unknown = F.when(~event["operation"].isin([kind.value for kind in EventKind]), F.lit("its operation is unknown"))
    malformed = F.when(
        event.isNull() | event[_CORRUPT].isNotNull(), F.lit("it is no JSON object with an event's fields")
    )
    return F.coalesce(malformed, *missing, unknown)


def _with_default(field: StructField) -> Column:
    """What `Event` has where a field is missing."""
    value = F.col(f"event.{field.name}")
    if isinstance(field.dataType, MapType):
        return F.coalesce(value, F.create_map().cast(field.dataType))
    default = _FIELDS[field.name].default
    return value if field.name in _REQUIRED or default is None else F.coalesce(value, F.lit(default))
