"""Plans from what stores list: of whole buckets, and of single keys.

A listing is written down before anything is made of it, so that no store is asked twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.core.lifecycle.rules import ActionKind
from tidegate.pipeline.log.log_table import LogTable
from tidegate.pipeline.plan.actions import RuledBucket, actions_frame, most_newer
from tidegate.pipeline.plan.evaluate import evaluate
from tidegate.pipeline.plan.version_roles import UPLOAD_SCHEMA, VERSION_SCHEMA, of_uploads, placed
from tidegate.pipeline.walk.key_listing import listed_keys
from tidegate.pipeline.walk.listed_rows import LISTED_SCHEMA, LISTED_UPLOAD_SCHEMA
from tidegate.pipeline.walk.listing_source import WalkedBucket, listed_uploads, newest_first
from tidegate.pipeline.walk.reported_versions import versions_of_buckets

_ABORT = ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD


@dataclass(frozen=True, slots=True)
class Walked:
    """A bucket whose actions are looked for by walking it."""

    bucket: RuledBucket
    place: WalkedBucket


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a listing does not tell of a bucket. With a `problem` it is not all there is, and nothing is planned."""

    unresolved_keys: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ListedPlan:
    """`plan` has the columns of `evaluate.PLAN_COLUMNS`; None stands for nothing. `troubles` are by bucket uid."""

    plan: DataFrame | None = None
    troubles: Mapping[str, Trouble] = field(default_factory=dict)


def of_buckets(
    session: SparkSession, table: LogTable, work: Path, walked: Sequence[Walked], *, now_ns: int
) -> ListedPlan:
    """Lists each bucket once, and its uploads once, if one of its actions needs it."""
    of_versions = [
        one.place for one in walked if any(action.pair.action.kind is not _ABORT for action in one.bucket.scoped)
    ]
    with_uploads = [
        one.place for one in walked if any(action.pair.action.kind is _ABORT for action in one.bucket.scoped)
    ]
    listed = []
    if of_versions:
        versions = versions_of_buckets(session, table, of_versions)
        listed.append(_written(session, versions, work / "versions", LISTED_SCHEMA))
    if with_uploads:
        listed.append(_written(session, listed_uploads(session, with_uploads), work / "uploads", LISTED_UPLOAD_SCHEMA))
    return _planned(session, listed, [one.bucket for one in walked], now_ns)


def of_keys(session: SparkSession, work: Path, keys: DataFrame, given: Sequence[Walked], *, now_ns: int) -> ListedPlan:
    """Of single keys (bucket_uid, key) of these buckets."""
    versions = listed_keys(keys, [one.place for one in given])
    listed = _written(session, versions, work / "keys", LISTED_SCHEMA)
    return _planned(session, [listed], [one.bucket for one in given], now_ns)


def _written(session: SparkSession, listed: DataFrame, path: Path, schema: StructType) -> DataFrame:
    listed.write.parquet(str(path))
    return session.read.schema(schema).parquet(str(path))


def _planned(
    session: SparkSession, listed: Sequence[DataFrame], buckets: Sequence[RuledBucket], now_ns: int
) -> ListedPlan:
    if not listed:
        return ListedPlan()
    troubles = _troubles(listed)
    failed = [uid for uid, trouble in troubles.items() if trouble.problem]
    subjects = []
    for frame in listed:
        sound = frame.where(F.col("resolved") & ~F.col("bucket_uid").isin(failed))
        subjects.append(_subjects(sound, most_newer(buckets)))
    plan = evaluate(reduce(DataFrame.unionByName, subjects), actions_frame(session, buckets, now_ns=now_ns))
    return ListedPlan(plan, troubles)


def _subjects(listed: DataFrame, newest_kept: int) -> DataFrame:
    if "upload_id" in listed.columns:
        return of_uploads(listed.select(*UPLOAD_SCHEMA.names))
    versions = listed.select(*VERSION_SCHEMA.names, "is_latest", "sequence")
    return placed(versions, newest_first(), most_newer=newest_kept)


def _troubles(listed: Sequence[DataFrame]) -> dict[str, Trouble]:
    names = ("bucket_uid", "key", "resolved", "problem")
    rows = reduce(DataFrame.union, [frame.select(*names) for frame in listed])
    counted = (
        rows.where(~F.col("resolved"))
        .groupBy("bucket_uid")
        .agg(F.count_distinct("key").alias("keys"), F.max("problem").alias("problem"))
        .collect()
    )
    return {row["bucket_uid"]: Trouble(row["keys"], row["problem"] or "") for row in counted}
