"""The frames of both jobs: what is read, in an order in which what happens meanwhile does least, and written down.

FOLDER/missing/*.parquet      versions that are meant for a site and are not there (`MISSING_SCHEMA`)
FOLDER/different/*.parquet    copies that are not what their records say (`DIFFERENT_SCHEMA`)
FOLDER/extra/*.parquet        what lies at a site and is no record's copy (`EXTRA_SCHEMA`)
FOLDER/_read/                 what was listed and read, while the job runs

The bucket is listed first, then the records are read, then the sites are listed: what a record says to have arrived
lay at its site before.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.replication.rules import ReplicationRule, ReplicationRules
from tidegate.pipeline.audit.location_source import AuditedLocation
from tidegate.pipeline.audit.reference_source import InstallationPlace
from tidegate.pipeline.replication import comparison
from tidegate.pipeline.replication.comparison import MEANT_SCHEMA
from tidegate.pipeline.replication.findings import ComparedPlace
from tidegate.pipeline.replication.record_source import STATE_SCHEMA, recorded_states
from tidegate.pipeline.replication.site_source import COPY_SCHEMA, listed_copies
from tidegate.pipeline.walk import key_ranges
from tidegate.pipeline.walk.listed_rows import LISTED_SCHEMA
from tidegate.pipeline.walk.listing_source import WalkedBucket, listed_versions
from tidegate.pipeline.walk.tag_needs import TagNeed

MISSING, DIFFERENT, EXTRA = "missing", "different", "extra"
_READ = "_read"
_EVER_NS = 2**63 - 1
_RECORD_RANGES = 16


@dataclass(frozen=True, slots=True)
class ComparedBucket:
    """A bucket with its rules, how it is reached, and the sites that are looked at, by their names."""

    bucket: WalkedBucket
    rules: ReplicationRules
    sites: Mapping[str, AuditedLocation]
    installation: InstallationPlace

    @property
    def place(self) -> ComparedPlace:
        return ComparedPlace(self.installation, self.bucket.uid, self.sites)


@dataclass(frozen=True, slots=True)
class Compared:
    """Frames that are written down, so that nothing is read twice. `states` are those of the bucket."""

    versions: DataFrame
    states: DataFrame
    wanted: DataFrame
    copies: DataFrame


@contextmanager
def working_folder(folder: Path) -> Iterator[Path]:
    """Where a job keeps what it reads, in a folder that must not exist yet."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be used for a comparison: {error.strerror}") from None
    read = folder / _READ
    try:
        yield read
    finally:
        shutil.rmtree(read, ignore_errors=True)


def compared(session: SparkSession, what: ComparedBucket, read: Path) -> Compared:
    """Raises `InvalidInput` where no rule names one of the sites."""
    sites = sorted(what.sites)
    if not sites or not set(sites) <= set(what.rules.sites):
        raise InvalidInput(f"no replication rule of {what.bucket.name} that is enabled names {', '.join(sites)}")
    bucket = _with_tags_wanted(what.bucket, what.rules)
    source = written(session, listed_versions(session, [bucket]), read / "source", LISTED_SCHEMA)
    _check_listed(read / "source", bucket.name)
    listed = source.where("resolved")
    states = _states(session, what, read)
    versions = written(session, comparison.timed(listed, states), read / "versions", None)
    wanted = comparison.meant(versions, states, what.rules, sites)
    wanted = written(session, wanted, read / "wanted", MEANT_SCHEMA)
    copies = [
        listed_copies(session, what.sites[site], name) for site, name in _buckets_at_sites(read / "wanted", what, sites)
    ]
    there = reduce(DataFrame.unionByName, copies)
    return Compared(versions, states, wanted, written(session, there, read / "copies", COPY_SCHEMA))


def written(session: SparkSession, frame: DataFrame, path: Path, schema: StructType | None) -> DataFrame:
    frame.write.parquet(str(path))
    return session.read.schema(schema or frame.schema).parquet(str(path))


def rows_in(folder: Path) -> int:
    """From the footers of the files: no job of Spark's is needed for that."""
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


def counted_by(folder: Path, *names: str) -> dict[tuple[str, ...], int]:
    """How often each combination of values is in these columns, of which there are few."""
    counts: dict[tuple[str, ...], int] = {}
    for batch in _batches(folder, names):
        grouped = pa.Table.from_batches([batch]).group_by(list(names)).aggregate([([], "count_all")]).to_pylist()
        for row in grouped:
            group = tuple(row[name] for name in names)
            counts[group] = counts.get(group, 0) + row["count_all"]
    return counts


def bytes_in(folder: Path) -> int:
    return sum(pc.sum(batch.column("size")).as_py() or 0 for batch in _batches(folder, ["size"]))


def _batches(folder: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for file in folder.glob("*.parquet"):
        yield from pq.ParquetFile(file).iter_batches(columns=list(names))


def _with_tags_wanted(bucket: WalkedBucket, rules: ReplicationRules) -> WalkedBucket:
    """Tags are fetched where a rule asks for some, and nowhere else."""
    needs = {TagNeed(rule.filter.prefix or "", None, None, _EVER_NS) for rule in rules.rules if _asks_for_tags(rule)}
    return replace(bucket, tag_needs=tuple(needs))


def _asks_for_tags(rule: ReplicationRule) -> bool:
    return rule.enabled and bool(rule.filter.tags)


def _states(session: SparkSession, what: ComparedBucket, read: Path) -> DataFrame:
    """The records of the bucket."""
    with closing(what.bucket.store()) as store:
        ranges = key_ranges.divide(store, what.bucket.name, "", _RECORD_RANGES)
    bounds = [part.after for part in ranges if part.after]
    states = recorded_states(session, what.installation, bucket_uid=what.bucket.uid, bounds=bounds)
    return written(session, states, read / "states", STATE_SCHEMA)


def _check_listed(source: Path, bucket: str) -> None:
    """A bucket that could not be listed is a row with a problem."""
    problems = [text for (text,) in counted_by(source, "problem") if text is not None]
    if problems:
        raise Unavailable(f"bucket {bucket} cannot be listed: {problems[0]}")


def _buckets_at_sites(wanted: Path, what: ComparedBucket, sites: Sequence[str]) -> list[tuple[str, str]]:
    """Where to look: in the buckets that the rules name, and in those that records name since earlier rules did."""
    named = {(site, rule.bucket) for rule in what.rules.rules if rule.enabled for site in rule.sites if site in sites}
    return sorted({*named, *((site, bucket) for site, bucket in counted_by(wanted, "site", "site_bucket"))})
