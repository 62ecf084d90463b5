"""The metadata log as a table: Parquet files by day, each named by the manifest.

    DIR/log-table/_manifest.json              what belongs to the table
    DIR/log-table/day=2026-01-31/*.parquet    the events of that day (UTC)
    DIR/log-table/_rejected/*.parquet         records that are no events
    DIR/log-table/_work/                      what a landing or a merge is writing; left over by a crash, it is removed

Whatever changes the table holds its lock, prepares new files where nobody looks, puts them in place, and then replaces
the manifest. A crash leaves files that no manifest names: garbage, which the next change removes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.errors import Conflict, Unavailable
from tidegate.core.shards import bucket_day
from tidegate.datadir import sync_directory
from tidegate.pipeline.log import manifest
from tidegate.pipeline.log.event_columns import REJECTED, TABLE_SCHEMA
from tidegate.pipeline.log.manifest import DataFile, Manifest, OffsetRange, RejectedFile

_EARLIEST_NS, _LATEST_NS = -(2**63), 2**63 - 1

CHANGE_COLUMNS = ("key_hash", "bucket_day", "ts_ns", "operation")

# A stretch of time with both ends.
Span = tuple[int, int]

# A day with more files than this is merged when it is compacted.
MOST_FILES_OF_A_DAY = 8
_ROWS_PER_FILE = 4_000_000
_ROWS_PER_PAGE = 5000
# So many buckets' days are named, at most, to leave pages out. Spark makes a chain of them, which Parquet's reader
# follows by recursion: a thousand were too many for the stack of a thread.
MOST_NAMED = 200
# Events of so few buckets are chosen by their uids, too, and pages without them left out; of more, Spark would read the
# column for little.
_FEW_BUCKETS = 8


class LogTable:
    def __init__(self, data: Path) -> None:
        self.path = data.resolve() / manifest.DIRECTORY
        self.work = self.path / "_work"
        self._manifest_file = self.path / manifest.FILE

    def manifest(self) -> Manifest:
        return manifest.load(self._manifest_file)

    def commit(self, changed: Manifest) -> None:
        manifest.store(self._manifest_file, changed)
        sync_directory(self.path)

    def read(
        self,
        session: SparkSession,
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        uids: Collection[str] | None = None,
        columns: Sequence[str] = tuple(TABLE_SCHEMA.names),
    ) -> DataFrame:
        """The events from `since_ns` to `until_ns`, both included, of these buckets or of all. Only files that can hold
        some are opened."""
        first_ns = _EARLIEST_NS if since_ns is None else since_ns
        last_ns = _LATEST_NS if until_ns is None else until_ns
        chosen = [file for file in self.manifest().files if file.overlaps(first_ns, last_ns)]
        events = self._read_files(session, chosen).where(F.col("ts_ns").between(first_ns, last_ns))
        if uids is not None:
            days = {file.day_number for file in chosen}
            events = events.where(F.col("bucket_uid").isin(sorted(uids)))
            events = _of_bucket_days(events, [bucket_day(uid, day) for uid in uids for day in days])
        return events.select(*columns)

    def read_changes(self, session: SparkSession, *, since_ns: int, uids: Collection[str]) -> DataFrame:
        """What tells whether a key changed since a time (`CHANGE_COLUMNS`): all events of these buckets, and perhaps
        some of others. Numbers are read, and few texts: this is the part of a plan that reads the most."""
        chosen = [file for file in self.manifest().files if file.last_ns >= since_ns]
        events = self._read_files(session, chosen).where(F.col("ts_ns") >= since_ns)
        if len(uids) <= _FEW_BUCKETS:
            events = events.where(F.col("bucket_uid").isin(sorted(uids)))
        days = {file.day_number for file in chosen}
        return _of_bucket_days(events, [bucket_day(uid, day) for uid in uids for day in days]).select(*CHANGE_COLUMNS)

    def read_bucket_days(
        self, session: SparkSession, spans: Sequence[Span], bucket_days: Collection[int], *, columns: Sequence[str]
    ) -> DataFrame:
        """The events of several stretches of time, and of these buckets' days."""
        chosen = [file for file in self.manifest().files if any(file.overlaps(*span) for span in spans)]
        within = " OR ".join(f"ts_ns BETWEEN {first_ns} AND {last_ns}" for first_ns, last_ns in spans)
        events = self._read_files(session, chosen).where(within or "false")
        return _of_bucket_days(events, bucket_days).select(*columns)

    def retain(self, before_ns: int) -> int:
        """Drops what lies before, in whole files: with a midnight, in whole days. Records that are no events go by when
        they were landed. Gives the time from which on the log is complete; 0 means since the beginning."""
        with self.changing() as known:
            rejected = [file.path for file in known.rejected if _modified_ns(self.path / file.path) < before_ns]
            left = known.without_events_before(before_ns).without_rejected(rejected)
            if left != known:
                self.commit(left)
            return left.horizon_ns

    def compact(self, session: SparkSession, *, most_files: int = MOST_FILES_OF_A_DAY) -> int:
        """Merges the files of days that have more than so many; gives the number of files that went."""
        with self.changing() as known:
            merged = known
            for day, files in known.days().items():
                if len(files) > most_files:
                    merged = merged.exchanged(files, self._merge(session, day, files))
                    self.commit(merged)
            return len(known.files) - len(merged.files)

    def events_by_shard(self, files: Iterable[DataFile]) -> dict[int, int]:
        """How many events of each shard the files hold."""
        counts: Counter[int] = Counter()
        for file in files:
            column = pq.read_table(self.path / file.path, columns=["shard"], partitioning=None).column("shard")
            counts.update({pair["values"]: pair["counts"] for pair in column.value_counts().to_pylist()})
        return dict(counts)

    def oldest_by_bucket(self, files: Iterable[DataFile]) -> dict[str, int]:
        """The time of the oldest event of each bucket uid in the files."""
        oldest: dict[str, int] = {}
        for file in files:
            events = pq.read_table(self.path / file.path, columns=["bucket_uid", "ts_ns"], partitioning=None)
            for row in events.group_by("bucket_uid").aggregate([("ts_ns", "min")]).to_pylist():
                uid, ts_ns = row["bucket_uid"], row["ts_ns_min"]
                oldest[uid] = min(ts_ns, oldest.get(uid, ts_ns))
        return oldest

    @contextmanager
    def changing(self) -> Iterator[Manifest]:
        """Holds the table's lock; garbage is removed before and after. Gives the manifest as it is."""
        with self._locked():
            self._remove_garbage()
            yield self.manifest()
            self._remove_garbage()

    def fresh_work(self, name: str) -> Path:
        """A directory for what is being prepared. Only within `changing`."""
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def take_in(
        self, written: Path, offsets: Iterable[OffsetRange] | None = None
    ) -> tuple[list[DataFile], list[RejectedFile]]:
        """Puts in place what Spark wrote by day, on stable storage; it belongs to the table once a manifest says so.

        `offsets` of the files are read from them unless they are given.
        """
        files: list[DataFile] = []
        rejected: list[RejectedFile] = []
        known = None if offsets is None else tuple(offsets)
        for source in sorted(written.glob("day=*/*.parquet")):
            day = source.parent.name.removeprefix("day=")
            folder = "_rejected" if day == REJECTED else source.parent.name
            target = self.path / folder / f"{uuid.uuid4().hex}.parquet"
            rows = pq.read_metadata(source).num_rows
            _move(source, target)
            relative = str(target.relative_to(self.path))
            if day == REJECTED:
                rejected.append(RejectedFile(relative, rows))
            else:
                files.append(_described(target, relative, day, rows, known))
        return files, rejected

    def _merge(self, session: SparkSession, day: str, files: Sequence[DataFile]) -> list[DataFile]:
        written = self.fresh_work("merged")
        rows = sum(file.rows for file in files)
        events = self._read_files(session, files).coalesce(1 + rows // _ROWS_PER_FILE)
        write_by_day(events, written)
        ranges = _united(offsets for file in files for offsets in file.offsets)
        merged, _ = self.take_in(written, ranges)
        if sum(file.rows for file in merged) != rows:
            raise Unavailable(f"{self.path}: merging {day} gave another number of events than its files have")
        return merged

    def _read_files(self, session: SparkSession, files: Iterable[DataFile]) -> DataFrame:
        paths = [str(self.path / file.path) for file in files]
        if not paths:
            return session.createDataFrame([], TABLE_SCHEMA)
        return session.read.schema(TABLE_SCHEMA).option("basePath", str(self.path)).parquet(*paths)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / "_lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be used: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise Conflict(f"{self.path} is being changed by another process; try again when it has ended") from None
        finally:
            os.close(lock)

    def _remove_garbage(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        known = self.manifest()
        named = {file.path for file in known.files} | {file.path for file in known.rejected}
        for folder in (*self.path.glob("day=*"), self.path / "_rejected"):
            for file in folder.glob("*"):
                if str(file.relative_to(self.path)) not in named:
                    file.unlink()
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _of_bucket_days(events: DataFrame, bucket_days: Collection[int]) -> DataFrame:
    """Leaves out pages of other buckets and days. No more than that: buckets may share a number, and very many numbers
    cost more than the pages that they spare."""
    if not 0 < len(bucket_days) <= MOST_NAMED:
        return events
    return events.where(f"bucket_day IN ({', '.join(map(str, bucket_days))})")


def write_by_day(rows: DataFrame, target: Path) -> None:
    """`target` exists and is empty. A bucket's events lie together in a file, in the order of their times, so that who
    asks for some buckets and some hours need not read the pages of others."""
    ordered = rows.sortWithinPartitions("day", "bucket_day", "ts_ns")
    writer = ordered.write.mode("append").partitionBy("day").option("compression", "zstd")
    writer.option("parquet.page.row.count.limit", _ROWS_PER_PAGE).parquet(str(target))


def _described(file: Path, relative: str, day: str, rows: int, offsets: tuple[OffsetRange, ...] | None) -> DataFile:
    """From the statistics in the file's footer, and where those do not tell enough from two of its columns."""
    footer = pq.read_metadata(file)
    column = next(leaf for leaf in range(footer.num_columns) if footer.schema.column(leaf).path == "ts_ns")
    statistics = [footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)]
    return DataFile(
        path=relative,
        day=day,
        rows=rows,
        size=file.stat().st_size,
        first_ns=min(found.min for found in statistics),
        last_ns=max(found.max for found in statistics),
        offsets=_offsets_in(file) if offsets is None else offsets,
    )


def _offsets_in(file: Path) -> tuple[OffsetRange, ...]:
    columns: pa.Table = pq.read_table(file, columns=["topic_partition", "topic_offset"], partitioning=None)
    ranges = columns.group_by("topic_partition").aggregate([("topic_offset", "min"), ("topic_offset", "max")])
    return _united(
        OffsetRange(row["topic_partition"], row["topic_offset_min"], row["topic_offset_max"])
        for row in ranges.to_pylist()
    )


def _united(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    found: dict[int, OffsetRange] = {}
    for one in ranges:
        other = found.get(one.partition, one)
        found[one.partition] = OffsetRange(one.partition, min(one.first, other.first), max(one.last, other.last))
    return tuple(found[partition] for partition in sorted(found))


def _move(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(exist_ok=True)
        with source.open("rb") as file:
            os.fsync(file.fileno())
        source.replace(target)
        sync_directory(target.parent)
        sync_directory(target.parent.parent)
    except OSError as error:
        raise Unavailable(f"{target} cannot be written: {error.strerror}") from None


def _modified_ns(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0
