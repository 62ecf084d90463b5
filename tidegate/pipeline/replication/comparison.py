"""What of a bucket is missing at its sites, what differs there, and what lies there beside it: frame to frame.

`source` are the versions of one bucket as listed (`LISTED_SCHEMA`), `states` the records of replication
(`STATE_SCHEMA`), `copies` what lies at the sites (`COPY_SCHEMA`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.core.events import NULL_VERSION
from tidegate.core.replication.records import Status
from tidegate.core.replication.rules import ReplicationRule, ReplicationRules
from tidegate.pipeline.column_types import columns
from tidegate.pipeline.replication.site_source import COPY_SCHEMA
from tidegate.pipeline.walk.listing_source import newest_first

_SECOND_NS, _MILLISECOND_NS = 1_000_000_000, 1_000_000
_VERSION = ["key", "version_id"]
_AT_SITE = ["site", "site_bucket", "key"]


class Lack(StrEnum):
    """Why a version counts as missing at a site. `NO_COPY`: its record says that it has arrived. `SHARED`: its
    record names the copy of an older version."""

    UNKNOWN = "no record"
    PENDING = "pending"
    FAILED = "failed"
    NO_COPY = "no copy"
    SHARED = "copy of another version"


class Difference(StrEnum):
    MARKER = "marker"
    SIZE = "size"
    ETAG = "etag"
    ORDER = "order"


# A version and a site to which the rules send it. `status` and what follows are the record's, and null without one.
MEANT_SCHEMA = StructType(
    columns(
        key=str, version_id=str, is_marker=bool, size=int, etag=str, ts_ns=int, modified_ns=int,
        site=str, site_bucket=str, status=str, since=float, copy_id=str, copy_etag=str,
    )
)  # fmt: skip
MISSING_SCHEMA = StructType([*MEANT_SCHEMA.fields, *columns(lack=str)])
DIFFERENT_SCHEMA = StructType([*MEANT_SCHEMA.fields, *columns(difference=str)])
EXTRA_SCHEMA = COPY_SCHEMA


def timed(source: DataFrame, states: DataFrame) -> DataFrame:
    """The versions that came here by a client, with `ts_ns`: the time of their event as their record has it, and for
    others one that puts them where the listing has them among the versions of their key, however many of them the store
    shows in one second. `modified_ns` is the earliest moment that the store's own time can mean."""
    events = states.groupBy(*_VERSION).agg(F.max("ts_ns").alias("event_ns"), F.max("is_replica").alias("is_replica"))
    oldest_first = Window.partitionBy("key").orderBy(F.col("is_latest"), F.col("created_ns"), F.col("sequence").desc())
    versions = source.withColumn(
        "version_id", F.expr(f"coalesce(nullif(version_id, ''), '{NULL_VERSION}')")
    ).withColumn("modified_ns", _earliest_ns())
    placed = versions.join(events, _VERSION, "left").withColumn("position", F.row_number().over(oldest_first))
    # Both rise with the position, so that the lesser of them and the position do, strictly.
    before = oldest_first.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    behind = oldest_first.rowsBetween(1, Window.unboundedFollowing)
    not_before = F.max(F.coalesce("event_ns", "modified_ns")).over(before)
    not_behind = F.min(F.col("event_ns") - F.col("position")).over(behind)
    times = placed.withColumn(
        "ts_ns", F.coalesce(F.col("event_ns"), F.least(not_before, not_behind) + F.col("position"))
    )
    return times.where(~F.coalesce("is_replica", F.lit(False))).select(
        *_VERSION, "is_marker", F.coalesce("size", F.lit(0)).alias("size"), F.coalesce("etag", F.lit("")).alias("etag"),
        "tags", "ts_ns", "modified_ns", F.col("event_ns").isNotNull().alias("is_known"),
    )  # fmt: skip


def meant(versions: DataFrame, states: DataFrame, rules: ReplicationRules, sites: Sequence[str]) -> DataFrame:
    """Versions (as `timed` gives them) by the sites to which the rules send them (`MEANT_SCHEMA`). What was written
    before its rule belongs to it if the rule is for existing objects, too, or if the version was sent there already: in
    another bucket, it is unknown in that of a rule for existing objects."""
    targeted = versions.withColumn("target", F.explode(F.array_compact(F.array(*(_target(rules, s) for s in sites)))))
    of_site = states.where(F.col("site").isNotNull()).select(
        *_VERSION, "site", F.struct("site_bucket", "status", "since", "copy_id", "copy_etag").alias("known")
    )
    joined = targeted.withColumn("site", F.col("target.site")).join(of_site, [*_VERSION, "site"], "left")
    chosen = joined.where(F.col("target.is_for_it") | F.col("known").isNotNull())
    is_elsewhere = F.col("target.existing") & (F.col("known.site_bucket") != F.col("target.bucket"))
    known = F.when(~F.coalesce(is_elsewhere, F.lit(False)), F.col("known"))
    placed = chosen.withColumn("known", known).select("*", "known.*")
    bucket = F.coalesce("known.site_bucket", "target.bucket").alias("site_bucket")
    return placed.select(*(bucket if name == "site_bucket" else F.col(name) for name in MEANT_SCHEMA.names))


def older(versions: DataFrame, rules: ReplicationRules, wanted: DataFrame, sites: Sequence[str]) -> DataFrame:
    """Versions that a rule matches and that are not `wanted`, since they are older than it."""
    matching = versions.where(F.size(F.array_compact(F.array(*(_target(rules, s) for s in sites)))) > 0)
    return matching.join(wanted, _VERSION, "left_anti").select(*_VERSION)


def missing_in(wanted: DataFrame, copies: DataFrame) -> DataFrame:
    """What is meant for a site (`MEANT_SCHEMA`) and is not there (`MISSING_SCHEMA`)."""
    there = copies.select(*_AT_SITE, "copy_id", F.lit(True).alias("is_there"))
    joined = wanted.withColumn("claim", _claim()).join(there, [*_AT_SITE, "copy_id"], "left")
    lack = (
        F.when(F.col("status").isNull(), Lack.UNKNOWN.value)
        .when(F.col("status") == Status.FAILED.value, Lack.FAILED.value)
        .when(F.col("status") == Status.PENDING.value, Lack.PENDING.value)
        .when(F.col("is_there").isNull(), Lack.NO_COPY.value)
        .when(F.col("claim") > 1, Lack.SHARED.value)
    )
    found = joined.withColumn("lack", lack).where(F.col("lack").isNotNull())
    return found.select(*MISSING_SCHEMA.names)


def different_in(wanted: DataFrame, copies: DataFrame) -> DataFrame:
    """What is meant for a site and lies there otherwise than its record says (`DIFFERENT_SCHEMA`): by kind, size or
    ETag, or in another place among the versions of its key."""
    place = F.row_number().over(Window.partitionBy(*_AT_SITE).orderBy(*newest_first()))
    placed = copies.withColumn("place", place).select(
        *_AT_SITE, "copy_id", "copy_is_marker", "copy_size", F.col("copy_etag").alias("shown_etag"), "place"
    )
    claimed = wanted.where(F.col("status") == Status.COMPLETED.value).withColumn("claim", _claim())
    arrived = claimed.where(F.col("claim") == 1).join(placed, [*_AT_SITE, "copy_id"])
    newer = Window.partitionBy(*_AT_SITE).orderBy(F.col("ts_ns").desc()).rowsBetween(Window.unboundedPreceding, -1)
    is_object = ~F.col("is_marker")
    difference = (
        F.when(F.col("is_marker") != F.col("copy_is_marker"), Difference.MARKER.value)
        .when(is_object & (F.col("size") != F.col("copy_size")), Difference.SIZE.value)
        .when(is_object & ~F.col("copy_etag").isin("", F.col("shown_etag")), Difference.ETAG.value)
        .when(F.max("place").over(newer) > F.col("place"), Difference.ORDER.value)
    )
    found = arrived.withColumn("difference", difference).where(F.col("difference").isNotNull())
    return found.select(*DIFFERENT_SCHEMA.names)


def extra_in(states: DataFrame, copies: DataFrame) -> DataFrame:
    """What lies at the sites (`EXTRA_SCHEMA`) and is no record's copy. `states` are the records of all buckets."""
    has_copy = (F.col("status") == Status.COMPLETED.value) | (F.col("copy_id") != NULL_VERSION)
    named = states.where(has_copy).select(*_AT_SITE, "copy_id")
    return copies.join(named, [*_AT_SITE, "copy_id"], "left_anti").select(*EXTRA_SCHEMA.names)


def _target(rules: ReplicationRules, site: str) -> Column:
    """Where the rules send a row at this site; null if nowhere. Of the rules that are for it, and otherwise of those
    that match it, the one with the highest priority decides, the last of several."""
    rising = sorted((rule for rule in rules.rules if rule.enabled and site in rule.sites), key=lambda r: r.priority)

    def decided(applies: Callable[[ReplicationRule], Column]) -> Column:
        return reduce(lambda rest, rule: F.when(applies(rule), _place(rule, site)).otherwise(rest), rising, F.lit(None))

    return F.coalesce(decided(lambda rule: _matches(rule) & _is_for(rule)), decided(_matches))


def _is_for(rule: ReplicationRule) -> Column:
    """The store tells no more than the second of a version without a record: one of the rule's own second is older."""
    written_ns = F.when(F.col("is_known"), F.col("ts_ns")).otherwise(F.col("modified_ns"))
    return F.lit(rule.existing_objects) | (written_ns >= int(rule.since * _SECOND_NS))


def _matches(rule: ReplicationRule) -> Column:
    conditions = [F.lit(True)]
    if rule.filter.prefix:
        conditions.append(F.col("key").startswith(rule.filter.prefix))
    if rule.filter.tags:
        conditions.append(~F.col("is_marker"))
    conditions += [F.col("tags")[F.lit(name)].eqNullSafe(F.lit(value)) for name, value in rule.filter.tags]
    return reduce(Column.__and__, conditions)


def _place(rule: ReplicationRule, site: str) -> Column:
    place = F.struct(
        F.lit(site).alias("site"),
        F.lit(rule.bucket).alias("bucket"),
        _is_for(rule).alias("is_for_it"),
        F.lit(rule.existing_objects).alias("existing"),
    )
    return place if rule.delete_markers else F.when(~F.col("is_marker"), place)


def _claim() -> Column:
    """1 for the oldest version whose record names a copy. Markers say nothing of whose copies they are."""
    return F.row_number().over(Window.partitionBy(*_AT_SITE, "copy_id", "status").orderBy("ts_ns"))


def _earliest_ns() -> Column:
    """A listing's row has the last moment that the store's time can mean."""
    is_second = (F.col("created_ns") + 1) % _SECOND_NS == 0
    unit = F.when(is_second, _SECOND_NS).otherwise(_MILLISECOND_NS)
    return F.col("created_ns") - F.col("created_ns") % unit
