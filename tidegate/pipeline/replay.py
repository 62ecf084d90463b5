"""Replay: the plan of what became due since the frontiers, from the log table.

First the events that can have made something due (`frontier`): few, and their days are known. Then what became of
their keys. A bucket that never had versioning keeps one object per key, so that a candidate falls out when any later
event of its key is found, by a join in which the log is read in four narrow columns. Of other buckets, and where tags
count, the candidates' keys are replayed whole (`versions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.events import EventKind
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.pipeline.actions import RuledBucket, actions_frame
from tidegate.pipeline.evaluate import evaluate
from tidegate.pipeline.event_columns import key_hash_of, shard_of
from tidegate.pipeline.frontier import Crossing, Frontier, beyond, candidates, crossings, spans
from tidegate.pipeline.log_table import LogTable
from tidegate.pipeline.places import SUBJECT_SCHEMA, alone, of_uploads, placed
from tidegate.pipeline.versions import EVENT_COLUMNS, objects_of, uploads_of, versions_of

_COLUMNS = (*EVENT_COLUMNS, "shard", "key_hash")
_KEY = ("bucket_uid", "key_hash", "key")
_REPLACES = (EventKind.PUT.value, EventKind.DELETE.value, EventKind.DELETE_MARKER.value)
_UPLOAD = EventKind.UPLOAD_STARTED.value
# So many hashes are sent to where the log is read; with more, the log is shuffled to where the hashes are.
_MOST_HASHES_TO_SEND = 2_000_000


@dataclass(frozen=True, slots=True)
class Replay:
    """`plan` has the columns of `evaluate.PLAN_COLUMNS`. `unsure` are keys (bucket_uid, bucket, key) with a candidate
    of whose versions the log does not know all: they must be listed."""

    plan: DataFrame
    unsure: DataFrame
    kept: tuple[DataFrame, ...]

    def release(self) -> None:
        """Frees what executors keep for the frames, which are no longer of use then."""
        for frame in self.kept:
            frame.unpersist()


class Replayer:
    """One replay at one moment; `until_ns` is the pass's time, or that up to which the log was landed if it is less."""

    def __init__(self, session: SparkSession, table: LogTable, *, until_ns: int) -> None:
        self._session = session
        self._table = table
        self._until_ns = until_ns
        self._kept: list[DataFrame] = []

    def replay(self, frontiers: Sequence[Frontier]) -> Replay:
        """Looks at once which keys are candidates; the rest is done when the plan is used."""
        buckets = {frontier.bucket.uid: frontier.bucket for frontier in frontiers}
        found = crossings(frontiers, self._until_ns)
        uploads = [one for one in found if _UPLOAD in one.operations]
        versions = [one for one in found if _UPLOAD not in one.operations]
        plain = [one for one in versions if _is_plain(buckets[one.bucket_uid])]
        full = [one for one in versions if not _is_plain(buckets[one.bucket_uid])]
        subjects = self._objects(plain)
        subjects = subjects.unionByName(self._versions([one for one in full if buckets[one.bucket_uid].complete]))
        subjects = subjects.unionByName(self._uploads(uploads))
        plan = evaluate(subjects, actions_frame(self._session, list(buckets.values())), now_ns=self._until_ns)
        shard = shard_of(key_hash_of(F.col("bucket"), F.col("key")))
        return Replay(
            plan=beyond(plan, shard, self._session, frontiers),
            unsure=self._unsure([one for one in full if not buckets[one.bucket_uid].complete]),
            kept=tuple(self._kept),
        )

    def _objects(self, found: Sequence[Crossing]) -> DataFrame:
        """The candidates that are still there, in buckets without versioning."""
        hashes = self._hashes(found)
        if hashes is None:
            return self._nothing()
        puts = self._candidates(found).where(F.col("operation") == EventKind.PUT.value)
        since_ns = min(crossing.first_ns for crossing in found)
        changes = self._table.read(self._session, since_ns=since_ns, columns=(*_KEY, "ts_ns", "operation"))
        changes = changes.where(F.col("operation").isin(*_REPLACES) & _of_buckets(found))
        last = changes.join(hashes, "key_hash", "left_semi").groupBy(*_KEY).agg(F.max("ts_ns").alias("ts_ns"))
        current = puts.join(last, [*_KEY, "ts_ns"], "left_semi")
        return alone(objects_of(current), now_ns=self._until_ns)

    def _versions(self, found: Sequence[Crossing]) -> DataFrame:
        """Every version of the candidates' keys."""
        hashes = self._hashes(found)
        if hashes is None:
            return self._nothing()
        events = self._table.read(self._session, columns=_COLUMNS).where(_of_buckets(found))
        history = events.join(hashes, "key_hash", "left_semi")
        newest_first = [F.col("created_ns").desc()]
        # Counts of newer versions are no matter of replay: nothing keeps a number of them here.
        return placed(versions_of(history), newest_first, most_newer=0, now_ns=self._until_ns)

    def _uploads(self, found: Sequence[Crossing]) -> DataFrame:
        """The candidates among uploads that are still open."""
        hashes = self._hashes(found)
        if hashes is None:
            return self._nothing()
        since_ns = min(crossing.first_ns for crossing in found)
        events = self._table.read(self._session, since_ns=since_ns, columns=_COLUMNS)
        history = events.where((F.col("upload_id") != "") & _of_buckets(found))
        return of_uploads(uploads_of(history.join(hashes, "key_hash", "left_semi")))

    def _unsure(self, found: Sequence[Crossing]) -> DataFrame:
        return self._candidates(found).select("bucket_uid", "bucket", "key").distinct()

    def _candidates(self, found: Sequence[Crossing]) -> DataFrame:
        events = self._table.read_spans(self._session, spans(found), columns=_COLUMNS)
        return candidates(events, self._session, found)

    def _hashes(self, found: Sequence[Crossing]) -> DataFrame | None:
        """The hashes of the keys that have a candidate; None where there is none. A key that shares its hash with one
        is replayed, too, and found not to be due."""
        if not found:
            return None
        hashes = self._candidates(found).select("key_hash").distinct().persist()
        self._kept.append(hashes)
        count = hashes.count()
        if not count:
            return None
        return F.broadcast(hashes) if count <= _MOST_HASHES_TO_SEND else hashes

    def _nothing(self) -> DataFrame:
        return self._session.createDataFrame([], SUBJECT_SCHEMA)


def _is_plain(bucket: RuledBucket) -> bool:
    """Whether a key has one object at most, of which its put says everything."""
    has_tags = any(pair.rule.filter.tags for pair in bucket.planned_pairs)
    return bucket.terms.versioning is Versioning.OFF and not has_tags


def _of_buckets(found: Sequence[Crossing]) -> Column:
    return F.col("bucket_uid").isin(sorted({crossing.bucket_uid for crossing in found}))
