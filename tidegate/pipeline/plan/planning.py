"""The plan of a pass: what is due, from the log and from listings, written down as Parquet files.

FOLDER/*.parquet    the plan (`evaluate.PLAN_COLUMNS`)
FOLDER/_listed/     what stores listed, while the plan is being made
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.errors import Unavailable
from tidegate.pipeline.log.log_table import LogTable
from tidegate.pipeline.plan.actions import RuledBucket, ScopedAction
from tidegate.pipeline.plan.bucket_plan import BucketPlan
from tidegate.pipeline.plan.frontier import Frontier
from tidegate.pipeline.plan.replay import Replayer
from tidegate.pipeline.plan.task_publishing import read_plan
from tidegate.pipeline.walk import walk_plans
from tidegate.pipeline.walk.listing_source import WalkedBucket
from tidegate.pipeline.walk.walk_plans import Trouble, Walked

__all__ = ["BucketPlan", "Replayed", "Walked", "last_changes", "make_plan"]

# Of a plan, by bucket, kind and reason to wait.
_Counts = dict[str, Any]
_LISTED = "_listed"
_IDENTITY = ["bucket_uid", "key", "version_id", "upload_id"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A bucket whose actions are looked for in the log: per shard, what became due after a time. In `place` keys are
    listed of which the log does not know all versions."""

    bucket: RuledBucket
    after_ns: dict[int, int]
    place: WalkedBucket


def make_plan(
    session: SparkSession,
    table: LogTable,
    folder: Path,
    *,
    now_ns: int,
    until_ns: int,
    walked: Sequence[Walked],
    replayed: Sequence[Replayed],
) -> dict[str, BucketPlan]:
    """Writes the plan to the folder, which must not exist, and tells by bucket uid what it holds.

    Listings are judged at `now_ns`. The log is judged at `until_ns`, up to which it was landed. A bucket that is walked
    and replayed is walked for the actions of its replay, too, and nothing is planned twice.
    """
    maker = _Maker(session, table, _made(folder), now_ns, until_ns)
    by_uid = {one.bucket.uid: one for one in replayed}
    maker.walk([_widened(one, by_uid.get(one.bucket.uid)) for one in walked])
    maker.replay(replayed)
    shutil.rmtree(folder / _LISTED, ignore_errors=True)
    return maker.summary({*by_uid, *(one.bucket.uid for one in walked)})


def last_changes(
    session: SparkSession, table: LogTable, uids: Iterable[str], *, since_ns: int | None = None
) -> dict[str, int]:
    """The time of the newest event of each of these buckets that has one since then."""
    wanted = set(uids)
    if not wanted or not any(since_ns is None or file.last_ns >= since_ns for file in table.manifest().files):
        return {}
    events = table.read(session, since_ns=since_ns, uids=wanted, columns=("bucket_uid", "ts_ns"))
    newest = events.groupBy("bucket_uid").agg(F.max("ts_ns").alias("ts_ns"))
    return {row["bucket_uid"]: row["ts_ns"] for row in newest.collect()}


class _Maker:
    def __init__(self, session: SparkSession, table: LogTable, folder: Path, now_ns: int, until_ns: int) -> None:
        self._session = session
        self._table = table
        self._folder = folder
        self._now_ns = now_ns
        self._until_ns = until_ns
        self._walked: set[str] = set()
        self._troubles: list[Mapping[str, Trouble]] = []

    def walk(self, walked: Sequence[Walked]) -> None:
        self._walked = {one.bucket.uid for one in walked}
        self._add(
            walk_plans.of_buckets(self._session, self._table, self._folder / _LISTED, walked, now_ns=self._now_ns)
        )

    def replay(self, replayed: Sequence[Replayed]) -> None:
        replayer = Replayer(self._session, self._table, until_ns=self._until_ns)
        replay = replayer.replay([Frontier(one.bucket, one.after_ns) for one in replayed])
        try:
            if replay.plan is not None:
                self._write(self._new(replay.plan, {one.bucket.uid for one in replayed}))
            if replay.unsure is not None:
                self._list(replay.unsure, [one for one in replayed if one.bucket.uid not in self._walked])
        finally:
            replay.release()

    def _list(self, keys: DataFrame, replayed: Sequence[Replayed]) -> None:
        given = [Walked(one.bucket, one.place) for one in replayed]
        chosen = keys.where(F.col("bucket_uid").isin([one.bucket.uid for one in given]))
        if given:
            self._add(walk_plans.of_keys(self._session, self._folder / _LISTED, chosen, given, now_ns=self._now_ns))

    def _add(self, listed: walk_plans.ListedPlan) -> None:
        self._troubles.append(listed.troubles)
        if listed.plan is not None:
            self._write(listed.plan)

    def _new(self, plan: DataFrame, uids: set[str]) -> DataFrame:
        """Without what walking has planned already."""
        written = read_plan(self._session, self._folder) if uids & self._walked else None
        if written is None:
            return plan
        return plan.join(written.select(*_IDENTITY).distinct(), _IDENTITY, "left_anti")

    def _write(self, plan: DataFrame) -> None:
        plan.write.mode("append").option("compression", "zstd").parquet(str(self._folder))

    def summary(self, uids: Iterable[str]) -> dict[str, BucketPlan]:
        by_uid: dict[str, list[_Counts]] = {uid: [] for uid in uids}
        for counts in _counted(self._folder):
            by_uid[counts["bucket_uid"]].append(counts)
        return {uid: _bucket_plan(rows, self._trouble(uid)) for uid, rows in by_uid.items()}

    def _trouble(self, uid: str) -> Trouble:
        found = [troubles[uid] for troubles in self._troubles if uid in troubles]
        problems = [trouble.problem for trouble in found if trouble.problem]
        return Trouble(sum(trouble.unresolved_keys for trouble in found), problems[0] if problems else "")


def _widened(walked: Walked, replayed: Replayed | None) -> Walked:
    """Walked for the actions of its replay, too, in the shards that are replayed."""
    if replayed is None:
        return walked
    shards = sum(1 << shard for shard in replayed.after_ns)
    more = [ScopedAction(action.pair, action.shards & shards) for action in replayed.bucket.scoped]
    return Walked(walked.bucket.widened(more), walked.place)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be used for a plan: {error.strerror}") from None
    return folder


def _counted(folder: Path) -> list[_Counts]:
    """The actions and bytes of each bucket, kind and reason to wait, batch by batch from the plan's files: a job of
    Spark's would cost more than reading four columns does."""
    names = ["bucket_uid", "kind", "hold"]
    parts = [
        pa.Table.from_batches([batch]).group_by(names).aggregate([("kind", "count"), ("size", "sum")])
        for file in sorted(folder.glob("*.parquet"))
        for batch in pq.ParquetFile(file).iter_batches(columns=[*names, "size"])
    ]
    if not parts:
        return []
    sums = pa.concat_tables(parts).group_by(names).aggregate([("kind_count", "sum"), ("size_sum", "sum")])
    found: list[_Counts] = sums.rename_columns([*names, "actions", "bytes"]).to_pylist()
    return found


def _bucket_plan(counted: Sequence[_Counts], trouble: Trouble) -> BucketPlan:
    free = [row for row in counted if row["hold"] is None]
    held: Counter[str] = Counter()
    for row in counted:
        if row["hold"] is not None:
            held[row["hold"]] += row["actions"]
    return BucketPlan(
        planned={row["kind"]: row["actions"] for row in free},
        held=dict(held),
        bytes=sum(row["bytes"] or 0 for row in free),
        unresolved_keys=trouble.unresolved_keys,
        problem=trouble.problem,
    )
