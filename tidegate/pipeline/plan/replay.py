"""Replay: the plan of what became due since the frontiers, from the log table.

First the events that can have made something due (`frontier`): few, and their days are known. Then what became of
their keys. A bucket that never had versioning keeps one object per key, so that a candidate falls out when a later
event of its key is found, by a join in which the log is read in a few narrow columns. Of other buckets, and where tags
count, the candidates' keys are replayed whole (`versions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.events import EventKind
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.shards import bucket_day
from tidegate.pipeline.log.event_columns import NS_PER_DAY, in_one_bucket
from tidegate.pipeline.log.log_table import CHANGE_COLUMNS, LogTable
from tidegate.pipeline.plan.actions import RuledBucket, actions_frame, most_newer
from tidegate.pipeline.plan.evaluate import evaluate
from tidegate.pipeline.plan.frontier import DueWindow, Frontier, candidates, due_windows, newly_due, spans, window_days
from tidegate.pipeline.plan.version_roles import alone, of_uploads, placed
from tidegate.pipeline.plan.versions import EVENT_COLUMNS, objects_of, uploads_of, versions_of

_COLUMNS = (*EVENT_COLUMNS, "shard", "key_hash")
# Where tags count, all events of a candidate's key are read again.
_CANDIDATE = (*(name for name in _COLUMNS if name != "tags"), "bucket_day")
_OBJECT = ["key_hash", "bucket_day", "ts_ns"]
_REPLACES = (EventKind.PUT.value, EventKind.DELETE.value, EventKind.DELETE_MARKER.value)
# So many candidates are sent to where the log is read; with more, the log is shuffled to where the candidates are.
_MOST_TO_SEND = 1_000_000
# What becomes of so few is judged by one task: to exchange rows between several costs more.
_MOST_OF_ONE_TASK = 25_000

Buckets = Mapping[str, RuledBucket]


class _Way(StrEnum):
    """How a candidate's subjects are found: the one object of its key, all versions of its key, its upload, or, where
    the log does not know all versions of the key, by asking the store."""

    OBJECT = "object"
    VERSIONS = "versions"
    UPLOAD = "upload"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Replay:
    """`plan` has the columns of `evaluate.PLAN_COLUMNS`. `unsure` are keys (bucket_uid, bucket, key) with a candidate
    of whose versions the log does not know all: they must be listed. None stands for nothing."""

    plan: DataFrame | None
    unsure: DataFrame | None
    kept: DataFrame | None = None

    def release(self) -> None:
        """Frees what executors keep for the frames, which are no longer of use then."""
        if self.kept is not None:
            self.kept.unpersist()


class Replayer:
    """One replay at one moment; `until_ns` is the pass's time, or that up to which the log was landed if it is less."""

    def __init__(self, session: SparkSession, table: LogTable, *, until_ns: int) -> None:
        self._session = session
        self._table = table
        self._until_ns = until_ns

    def replay(self, frontiers: Sequence[Frontier]) -> Replay:
        """Looks at once which events are candidates; the rest is done when the plan is used."""
        buckets = {frontier.bucket.uid: frontier.bucket for frontier in frontiers}
        found = due_windows(frontiers, self._until_ns)
        read = spans(found)
        files = [file for file in self._table.manifest().files if any(file.overlaps(*span) for span in read)]
        met = window_days(found, {file.day_number for file in files})
        if not met:
            return Replay(None, None)
        bucket_days = {bucket_day(window.bucket_uid, day) for window, day in met}
        events = self._table.read_bucket_days(self._session, read, bucket_days, columns=_CANDIDATE)
        ways = {window: _way(window, buckets[window.bucket_uid]) for window in found}
        kept = candidates(events, self._session, met, ways.__getitem__).persist()
        counts = {_Way(row["way"]): row["count"] for row in kept.groupBy("way").count().collect()}
        by_way = {way: [window for window in found if ways[window] is way] for way in counts}
        subjects = [
            self._subjects(way, kept.where(F.col("way") == way.value), count, by_way[way], buckets)
            for way, count in counts.items()
            if way is not _Way.STORE
        ]
        if subjects and sum(counts.values()) <= _MOST_OF_ONE_TASK:
            subjects = [reduce(DataFrame.unionByName, subjects).coalesce(1)]
        unsure = kept.where(F.col("way") == _Way.STORE.value).select("bucket_uid", "bucket", "key").distinct()
        return Replay(
            plan=self._plan(subjects, list(buckets.values()), frontiers) if subjects else None,
            unsure=unsure if _Way.STORE in counts else None,
            kept=kept,
        )

    def _plan(
        self, subjects: Sequence[DataFrame], buckets: Sequence[RuledBucket], frontiers: Sequence[Frontier]
    ) -> DataFrame:
        united = reduce(DataFrame.unionByName, subjects)
        plan = evaluate(united, actions_frame(self._session, buckets, now_ns=self._until_ns))
        return newly_due(plan, self._session, frontiers)

    def _subjects(
        self, way: _Way, events: DataFrame, count: int, found: Sequence[DueWindow], buckets: Buckets
    ) -> DataFrame:
        is_few = count <= _MOST_TO_SEND
        if way is _Way.OBJECT:
            return self._objects(events.where(F.col("operation") == EventKind.PUT.value), is_few, found, buckets)
        # A key that shares its hash with a candidate's is replayed, too, and found not to be due.
        hashes = _sent(events.select("key_hash"), is_few)
        if way is _Way.UPLOAD:
            return self._uploads(hashes, found)
        return self._versions(hashes, found, buckets)

    def _objects(self, puts: DataFrame, is_few: bool, found: Sequence[DueWindow], buckets: Buckets) -> DataFrame:
        """What puts made and nothing replaced since, in buckets without versioning.

        Keys are told apart by their hashes, which are a third of what the log would have to be read for otherwise. Of
        two keys with one hash, which a bucket of a billion keys has by a chance of three in a hundred, one may be
        taken for replaced: it is kept until its bucket is walked.
        """
        changes = self._table.read_changes(self._session, since_ns=_first_day(found), uids=_uids(found))
        changes = changes.where(F.col("operation").isin(*_REPLACES))
        made = puts.select("key_hash", F.col("bucket_day").alias("made_day"), F.col("ts_ns").alias("made_ns"))
        is_later = (F.col("ts_ns") > F.col("made_ns")) & in_one_bucket(F.col("bucket_day"), F.col("made_day"))
        later = changes.join(_sent(made, is_few), "key_hash").where(is_later)
        replaced = later.select("key_hash", F.col("made_day").alias("bucket_day"), F.col("made_ns").alias("ts_ns"))
        current = puts.join(_sent(replaced, is_few), _OBJECT, "left_anti")
        moving = {uid for uid in _uids(found) if buckets[uid].rule_set.has_transitions}
        if moving:
            current = self._with_classes(current, made, is_few, _first_day(found), moving)
        return alone(objects_of(current))

    def _with_classes(self, puts: DataFrame, made: DataFrame, is_few: bool, since_ns: int, uids: set[str]) -> DataFrame:
        """What puts made, with the storage classes to which it was moved since. Only transitions ask for them."""
        columns = (*CHANGE_COLUMNS, "storage_class")
        events = self._table.read(self._session, since_ns=since_ns, uids=uids, columns=columns)
        moves = events.where(F.col("operation") == EventKind.MOVED.value)
        is_later = (F.col("ts_ns") > F.col("made_ns")) & in_one_bucket(F.col("bucket_day"), F.col("made_day"))
        entered = (
            moves.join(_sent(made, is_few), "key_hash")
            .where(is_later)
            .groupBy("key_hash", F.col("made_day").alias("bucket_day"), F.col("made_ns"))
            .agg(F.max_by("storage_class", "ts_ns").alias("entered"))
            .withColumnRenamed("made_ns", "ts_ns")
        )
        joined = puts.join(_sent(entered, is_few), _OBJECT, "left")
        return joined.withColumn("storage_class", F.coalesce("entered", "storage_class")).drop("entered")

    def _versions(self, hashes: DataFrame, found: Sequence[DueWindow], buckets: Buckets) -> DataFrame:
        """Every version of the candidates' keys."""
        replayed = [buckets[uid] for uid in sorted(_uids(found))]
        events = self._table.read(self._session, uids=_uids(found), columns=_COLUMNS)
        history = events.join(hashes, "key_hash", "left_semi")
        versions = versions_of(
            history,
            with_tags=any(bucket.rule_set.needs_tags for bucket in replayed),
            with_classes=any(bucket.rule_set.has_transitions for bucket in replayed),
        )
        newest_first = [F.col("created_ns").desc()]
        return placed(versions, newest_first, most_newer=most_newer(replayed))

    def _uploads(self, hashes: DataFrame, found: Sequence[DueWindow]) -> DataFrame:
        """The candidates among uploads that are still open."""
        events = self._table.read(self._session, since_ns=_first_day(found), uids=_uids(found), columns=_COLUMNS)
        history = events.where(F.col("upload_id") != "")
        return of_uploads(uploads_of(history.join(hashes, "key_hash", "left_semi")))


def _sent(frame: DataFrame, is_few: bool) -> DataFrame:
    return F.broadcast(frame) if is_few else frame


def _way(window: DueWindow, bucket: RuledBucket) -> _Way:
    if window.is_of_uploads:
        return _Way.UPLOAD
    if bucket.bucket_context.versioning is Versioning.OFF and not bucket.rule_set.needs_tags:
        return _Way.OBJECT
    return _Way.VERSIONS if bucket.complete else _Way.STORE


def _uids(found: Sequence[DueWindow]) -> set[str]:
    return {window.bucket_uid for window in found}


def _first_day(found: Sequence[DueWindow]) -> int:
    """The midnight before the first event that is looked for. What comes before that event is read in vain, but Spark
    compiles the reading once a day and not in every pass."""
    return min(window.first_ns for window in found) // NS_PER_DAY * NS_PER_DAY
