"""The plan as Spark expressions: which action is due for which version or upload, and which goes first.

The counterpart of `tidegate.core.lifecycle.decide`, with which it agrees to the last digit; tests compare the two on
generated histories. The rules' own numbers come from the core (`actions`); here they meet the subjects (`places`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.core.lifecycle.assess import Effect, Hold
from tidegate.core.lifecycle.subjects import Versioning, VersionRole
from tidegate.pipeline.column_types import columns_of
from tidegate.pipeline.log.event_columns import NS_PER_DAY, key_hash_of, shard_of
from tidegate.pipeline.plan.plan_row import PlanRow
from tidegate.pipeline.plan.version_roles import IS_NULL

# What the plan says of the action that is taken; the rest it says of the subject.
_OF_ACTION = (
    *("effect", "kind", "rule_id", "action_id", "due_ns", "became_due_ns", "since_ns"),
    *("storage_class", "hold"),
)
PLAN_SCHEMA = StructType(columns_of(PlanRow))
PLAN_COLUMNS = tuple(PLAN_SCHEMA.names)
_OF_SUBJECT = tuple(name for name in PLAN_COLUMNS if name not in (*_OF_ACTION, "newest_due_ns", "shard"))


def evaluate(subjects: DataFrame, actions: DataFrame) -> DataFrame:
    """The plan (`PLAN_COLUMNS`) for subjects of which an action is due that is looked for in their shard: the first
    action in precedence that nothing holds, and before it the first of those that are held (which have a `hold` and
    wait)."""
    return chosen(due(subjects, actions))


def due(subjects: DataFrame, actions: DataFrame) -> DataFrame:
    """One row for each action that is due for a subject, with its `precedence`."""
    met = subjects.join(F.broadcast(actions), ["bucket_uid", "place"])
    matched = met.selectExpr("*", f"{_SINCE} AS since_ns", f"{_DUE} AS due_ns").where(_IS_DUE)
    assessed = matched.withColumn("shard", shard_of(key_hash_of(F.col("bucket"), F.col("key"))))
    assessed = assessed.selectExpr(
        "*",
        f"{_EFFECT} AS effect",
        f"{_PERMANENT} AS permanent",
        f"{_HOLD} AS hold",
        f"{_BECAME_DUE} AS became_due_ns",
    )
    return assessed.selectExpr(
        *(_OF_SUBJECT_TEXT.get(name, name) for name in _OF_SUBJECT),
        "shard",
        *(f"action.{name}" if name in _OF_RULE else name for name in _OF_ACTION),
        f"{_PRECEDENCE} AS precedence",
        "CASE WHEN getbit(action.shards, shard) = 1 THEN became_due_ns END AS found_due_ns",
    )


def chosen(due_actions: DataFrame) -> DataFrame:
    """Of the actions that are due, those of the plan."""
    identity = ("bucket_uid", "key", "version_id", "upload_id", "created_ns")
    candidate = f"struct(precedence, {', '.join(_OF_ACTION)})"
    best = due_actions.groupBy(*identity).agg(
        *(F.expr(f"first({name}) AS {name}") for name in (*_OF_SUBJECT, "shard") if name not in identity),
        F.expr(f"min(CASE WHEN hold IS NULL THEN {candidate} END) AS free"),
        F.expr(f"min(CASE WHEN hold IS NOT NULL THEN {candidate} END) AS held"),
        F.expr("max(found_due_ns) AS newest_due_ns"),
    )
    goes_before = "free IS NULL OR held.precedence < free.precedence"
    taken = f"explode(array_compact(array(CASE WHEN {goes_before} THEN held END, free))) AS taken"
    rows = best.where("newest_due_ns IS NOT NULL").selectExpr("*", taken)
    return rows.selectExpr(*(f"taken.{name}" if name in _OF_ACTION else name for name in PLAN_COLUMNS))


# The expressions are SQL's text: to make each of them up of Python's columns takes a dozen calls to the JVM. Later ones
# use what earlier ones name, as `since_ns`, so that it is worked out once.


def _is(*roles: VersionRole) -> str:
    return f"place IN ({', '.join(repr(role.value) for role in roles)})"


_MARKERS = (VersionRole.SOLE_MARKER, VersionRole.COVERING_MARKER, VersionRole.NONCURRENT_MARKER)
_IS_SUSPENDED = f"action.versioning = '{Versioning.SUSPENDED.value}'"
_IS_OFF = f"action.versioning = '{Versioning.OFF.value}'"
_OF_RULE = ("kind", "rule_id", "action_id", "storage_class")
# Where there is no versioning a version has no id, whatever a listing calls it.
_OF_SUBJECT_TEXT = {"version_id": f"CASE WHEN {_IS_OFF} THEN '' ELSE version_id END AS version_id"}

# Where a count of days begins, and where it ends.
_SINCE = f"""
    CASE WHEN {_is(VersionRole.NONCURRENT, VersionRole.NONCURRENT_MARKER)} THEN noncurrent_since_ns
         ELSE created_ns END"""
_DUE = f"""
    coalesce(
        action.date_ns,
        since_ns + action.wait_ns
            + CASE WHEN action.rounds_up THEN pmod(-(since_ns + action.wait_ns), {NS_PER_DAY}L) ELSE 0L END)"""

_HAS_NO_TAGS = "size(action.tags) = 0"
# Due, and not among the newest noncurrent versions that the action keeps; it matches; what moves comes from a warmer
# class; and the store can do it: some cannot remove delete markers of the null version.
_IS_DUE = f"""
    due_ns <= action.now_ns
    AND (action.newer IS NULL OR newer >= action.newer)
    AND startswith(key, action.prefix)
    AND CASE WHEN {_is(*_MARKERS, VersionRole.UPLOAD)} THEN {_HAS_NO_TAGS} AND NOT action.has_size
             ELSE (action.size_greater_than IS NULL OR size > action.size_greater_than)
                  AND (action.size_less_than IS NULL OR size < action.size_less_than)
                  AND ({_HAS_NO_TAGS} OR size(array_except(action.tags, map_entries(tags))) = 0) END
    AND (NOT action.is_transition
         OR (NOT array_contains(action.never_from, storage_class) AND size >= action.smallest))
    AND NOT (action.keeps_null_markers AND {_is(*_MARKERS)} AND {IS_NULL})"""

# The later of the due time and of the event that made the rule match.
_BECAME_DUE = f"""
    greatest(
        due_ns,
        created_ns,
        CASE WHEN action.newer > 0 THEN try_element_at(newer_ns, -(action.newer + 1)) END,
        moved_ns,
        CASE WHEN NOT {_HAS_NO_TAGS} THEN tagged_ns END)"""

_EFFECT = f"""
    CASE WHEN {_is(VersionRole.UPLOAD)} THEN '{Effect.ABORT_UPLOAD.value}'
         WHEN action.is_transition THEN '{Effect.TRANSITION.value}'
         WHEN {_is(*_MARKERS)} THEN '{Effect.REMOVE_MARKER.value}'
         WHEN {_is(VersionRole.NONCURRENT)} OR {_IS_OFF} THEN '{Effect.DELETE.value}'
         ELSE '{Effect.EXPIRE.value}' END"""
# Whether data is destroyed for good; a null marker takes the place of a null version.
_PERMANENT = f"""
    effect <> '{Effect.TRANSITION.value}'
    AND (effect <> '{Effect.EXPIRE.value}' OR ({_IS_SUSPENDED} AND {IS_NULL}))"""

# A lock forbids destruction, not moving nor hiding; what is still to be replicated is left alone altogether.
_REPLACES_NULL = f"(effect = '{Effect.EXPIRE.value}' AND {_IS_SUSPENDED})"
_HOLD = f"""
    CASE WHEN CASE WHEN {_REPLACES_NULL} THEN null_locked_until_ns WHEN permanent THEN locked_until_ns END
              > action.now_ns THEN '{Hold.OBJECT_LOCK.value}'
         WHEN replication_pending OR ({_REPLACES_NULL} AND null_pending) THEN '{Hold.REPLICATION_PENDING.value}' END"""

# Permanent deletion, then transition, then a delete marker; the colder class, the earlier time, the first rule.
_PRECEDENCE = """
    named_struct(
        'order', CASE WHEN permanent THEN 0
                      WHEN action.is_transition THEN 1
                      ELSE 2 END,
        'warmth', -action.coldness,
        'due_ns', due_ns,
        'position', action.position)"""
