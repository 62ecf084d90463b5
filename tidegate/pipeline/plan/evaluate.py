"""The plan as Spark expressions: which action is due for which version or upload, and which goes first.

The counterpart of `tidegate.core.lifecycle.decide`, with which it agrees to the last digit; tests compare the two on
generated histories. The rules' own numbers come from the core (`actions`); here they meet the subjects (`places`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from tidegate.core.lifecycle.assess import Effect, Hold
from tidegate.core.lifecycle.subjects import Versioning, VersionRole
from tidegate.pipeline.log.event_columns import NS_PER_DAY, key_hash_of, shard_of
from tidegate.pipeline.plan.version_roles import SUBJECT_SCHEMA, is_null

_MARKERS = (VersionRole.SOLE_MARKER.value, VersionRole.COVERING_MARKER.value, VersionRole.NONCURRENT_MARKER.value)
_WITHOUT_OBJECT = (*_MARKERS, VersionRole.UPLOAD.value)
_NONCURRENT = (VersionRole.NONCURRENT.value, VersionRole.NONCURRENT_MARKER.value)

# What the plan says of the subject, and of the action that is taken.
_OF_SUBJECT = (
    "bucket_uid",
    "bucket",
    "owner",
    "key",
    "version_id",
    "upload_id",
    "created_ns",
    "last_modified",
    "etag",
    "size",
)
_OF_ACTION = (
    "effect",
    "kind",
    "rule_id",
    "action_id",
    "due_ns",
    "became_due_ns",
    "since_ns",
    "storage_class",
    "hold",
    "acts",
)
_TYPES = {
    "due_ns": LongType(),
    "since_ns": LongType(),
    "became_due_ns": LongType(),
    "acts": BooleanType(),
    "newest_due_ns": LongType(),
    "shard": IntegerType(),
}
# `acts` is false for transitions that nothing carries out. `newest_due_ns` is when the last of the subject's actions
# that were looked for became due, whichever is taken.
PLAN_SCHEMA = StructType(
    [
        *(SUBJECT_SCHEMA[name] for name in _OF_SUBJECT),
        *(StructField(name, _TYPES.get(name, StringType())) for name in (*_OF_ACTION, "newest_due_ns", "shard")),
    ]
)
PLAN_COLUMNS = tuple(PLAN_SCHEMA.names)


def evaluate(subjects: DataFrame, actions: DataFrame) -> DataFrame:
    """The plan (`PLAN_COLUMNS`) for subjects of which an action is due that is looked for in their shard: the first
    action in precedence that nothing holds, and before it the first of those that are held (which have a `hold` and
    wait)."""
    return chosen(due(subjects, actions))


def due(subjects: DataFrame, actions: DataFrame) -> DataFrame:
    """One row for each action that is due for a subject, with its `precedence`."""
    met = subjects.join(F.broadcast(actions), ["bucket_uid", "place"])
    met = met.withColumn("since_ns", _since_ns()).withColumn("due_ns", _due_ns())
    matched = met.where(_in_time() & _matches() & _may_move() & _may_be_removed())
    # Step by step, so that what one step tells is worked out once for all that follow.
    assessed = matched.withColumn("effect", _effect())
    assessed = assessed.withColumn("permanent", _is_permanent())
    assessed = assessed.withColumn("hold", _hold())
    assessed = assessed.withColumn("acts", ~_a("is_transition") | _a("transitions_act"))
    assessed = assessed.withColumn("became_due_ns", _became_due_ns())
    assessed = assessed.withColumn("shard", shard_of(key_hash_of(F.col("bucket"), F.col("key"))))
    # Where there is no versioning a version has no id, whatever a listing calls it.
    version_id = F.when(_a("versioning") == Versioning.OFF.value, F.lit("")).otherwise(F.col("version_id"))
    return assessed.select(
        *(version_id.alias(name) if name == "version_id" else name for name in _OF_SUBJECT),
        "shard",
        *(_of_action(name) for name in _OF_ACTION),
        _precedence().alias("precedence"),
        F.when(F.getbit(_a("shards"), F.col("shard")) == 1, F.col("became_due_ns")).alias("found_due_ns"),
    )


def chosen(due_actions: DataFrame) -> DataFrame:
    """Of the actions that are due, those of the plan."""
    candidate = F.struct("precedence", *_OF_ACTION)
    held = F.col("hold").isNotNull()
    identity = ("bucket_uid", "key", "version_id", "upload_id", "created_ns")
    best = due_actions.groupBy(*identity).agg(
        *(F.first(name).alias(name) for name in (*_OF_SUBJECT, "shard") if name not in identity),
        F.min(F.when(~held, candidate)).alias("free"),
        F.min(F.when(held, candidate)).alias("held"),
        F.max("found_due_ns").alias("newest_due_ns"),
    )
    wanted = best.where(F.col("newest_due_ns").isNotNull())
    goes_before = F.col("free").isNull() | (F.col("held.precedence") < F.col("free.precedence"))
    taken = F.array_compact(F.array(F.when(goes_before, F.col("held")), F.col("free")))
    rows = wanted.select("*", F.explode(taken).alias("taken"))
    of_action = {name: F.col(f"taken.{name}").alias(name) for name in _OF_ACTION}
    return rows.select(*(of_action.get(name, name) for name in PLAN_COLUMNS))


def _a(name: str) -> Column:
    return F.col(f"action.{name}")


def _of_action(name: str) -> Column:
    return _a(name).alias(name) if name in ("kind", "rule_id", "action_id", "storage_class") else F.col(name)


def _is(*places: str) -> Column:
    return F.col("place").isin(*places)


def _since_ns() -> Column:
    """Where a count of days begins."""
    return F.when(_is(*_NONCURRENT), F.col("noncurrent_since_ns")).otherwise(F.col("created_ns"))


def _due_ns() -> Column:
    end_ns = F.col("since_ns") + _a("wait_ns")
    rounding = F.when(_a("rounds_up"), F.pmod(-end_ns, F.lit(NS_PER_DAY))).otherwise(F.lit(0))
    return F.coalesce(_a("date_ns"), end_ns + rounding)


def _in_time() -> Column:
    """Due, and not among the newest noncurrent versions that the action keeps."""
    return (F.col("due_ns") <= _a("now_ns")) & (_a("newer").isNull() | (F.col("newer") >= _a("newer")))


def _became_due_ns() -> Column:
    """The later of the due time and of the event that made the rule match."""
    demotion_ns = F.when(_a("newer") > 0, F.try_element_at("newer_ns", -(_a("newer") + 1)))
    tagged_ns = F.when(F.size(_a("tags")) > 0, F.col("tagged_ns"))
    return F.greatest("due_ns", "created_ns", demotion_ns, "moved_ns", tagged_ns)


def _matches() -> Column:
    has_tags = F.size(_a("tags")) > 0
    plain = ~has_tags & ~_a("has_size")
    wanted = ~has_tags | (F.size(F.array_except(_a("tags"), F.map_entries("tags"))) == 0)
    large = _a("size_greater_than").isNull() | (F.col("size") > _a("size_greater_than"))
    small = _a("size_less_than").isNull() | (F.col("size") < _a("size_less_than"))
    of_object = F.when(_is(*_WITHOUT_OBJECT), plain).otherwise(large & small & wanted)
    return F.col("key").startswith(_a("prefix")) & of_object


def _may_move() -> Column:
    from_warmer = ~F.array_contains(_a("never_from"), F.col("storage_class"))
    return ~_a("is_transition") | (from_warmer & (F.col("size") >= _a("smallest")))


def _may_be_removed() -> Column:
    """Some stores cannot remove delete markers of the null version."""
    return ~(_a("keeps_null_markers") & _is(*_MARKERS) & is_null())


def _effect() -> Column:
    destroys = _is(VersionRole.NONCURRENT.value) | (_a("versioning") == Versioning.OFF.value)
    return (
        F.when(_is(VersionRole.UPLOAD.value), Effect.ABORT_UPLOAD.value)
        .when(_a("is_transition"), Effect.TRANSITION.value)
        .when(_is(*_MARKERS), Effect.REMOVE_MARKER.value)
        .when(destroys, Effect.DELETE.value)
        .otherwise(Effect.EXPIRE.value)
    )


def _is_suspended() -> Column:
    return _a("versioning") == Versioning.SUSPENDED.value


def _is_permanent() -> Column:
    """Whether data is destroyed for good; a null marker takes the place of a null version."""
    replaces = _is_suspended() & is_null()
    effect = F.col("effect")
    return (effect != Effect.TRANSITION.value) & ((effect != Effect.EXPIRE.value) | replaces)


def _hold() -> Column:
    """A lock forbids destruction, not moving nor hiding; what is still to be replicated is left alone altogether."""
    replaces_null = (F.col("effect") == Effect.EXPIRE.value) & _is_suspended()
    until_ns = F.when(replaces_null, F.col("null_locked_until_ns")).when(F.col("permanent"), F.col("locked_until_ns"))
    pending = F.col("replication_pending") | (replaces_null & F.col("null_pending"))
    return F.when(until_ns > _a("now_ns"), Hold.OBJECT_LOCK.value).when(pending, Hold.REPLICATION_PENDING.value)


def _precedence() -> Column:
    """Permanent deletion, then transition, then a delete marker; the colder class, the earlier time, the first rule."""
    transition = F.when(_a("transitions_act"), 1).otherwise(3)
    order = F.when(F.col("permanent"), 0).when(_a("is_transition"), transition).otherwise(2)
    return F.struct(
        order.alias("order"),
        (-_a("coldness")).alias("warmth"),
        F.col("due_ns").alias("due_ns"),
        _a("position").alias("position"),
    )
