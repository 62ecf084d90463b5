"""The audit of a location: data that nothing refers to, and placements whose data is not there. Frames all the way.

FOLDER/orphans/*.parquet    data that nothing refers to, older than a grace (`ORPHAN_SCHEMA`)
FOLDER/missing/*.parquet    placements whose data is not there (`REFERENCE_SCHEMA`)
FOLDER/_read/               what was listed and what refers to it, while the audit runs

What is written while the audit runs must not be taken for an orphan or for damage. So the location is listed first,
then the copies and the trash are read, then the placements: the entry of a copy or of the trash goes only when a
placement stands in its stead. What seems to be missing is looked for once more by itself.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.core.data_references import ReferenceKind
from tidegate.core.errors import Unavailable
from tidegate.core.pending_deletes import Component
from tidegate.pipeline.audit import findings
from tidegate.pipeline.audit.findings import ORPHAN_SCHEMA
from tidegate.pipeline.audit.location_source import DATA_SCHEMA, AuditedLocation, listed_data
from tidegate.pipeline.audit.reference_source import REFERENCE_SCHEMA, InstallationPlace, copies, placements, trash

ORPHANS, MISSING = "orphans", "missing"
_READ = "_read"


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """`foreign` are orphans that do not say whose they are and are older than the location: they are left alone. `sent`
    were handed to deletion."""

    listed: int
    referenced: int
    orphans: int
    orphan_bytes: int
    foreign: int
    missing: int
    sent: int = 0


def orphans_in(data: DataFrame, references: DataFrame, *, before_ns: int) -> DataFrame:
    """Data (`DATA_SCHEMA`) to which nothing refers and which was written before then."""
    return data.where(F.col("modified_ns") < before_ns).join(references.select("data_key"), "data_key", "left_anti")


def missing_in(data: DataFrame, references: DataFrame) -> DataFrame:
    """Placements (`REFERENCE_SCHEMA`) whose data is not among what was listed."""
    placed = references.where(F.col("kind") == ReferenceKind.PLACEMENT.value)
    return placed.join(data.select("data_key"), "data_key", "left_anti").select(*REFERENCE_SCHEMA.names)


def audit(
    session: SparkSession, audited: AuditedLocation, place: InstallationPlace, folder: Path, *, before_ns: int
) -> AuditCounts:
    """Writes down what it finds, in a folder that must not exist, and counts it. Nothing is changed."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be used for an audit: {error.strerror}") from None
    read, name = folder / _READ, audited.location.name
    data = _written(session, listed_data(session, audited), read / "data", DATA_SCHEMA)
    begun = _written(session, copies(session, place, name), read / "copies", REFERENCE_SCHEMA)
    kept = _written(session, trash(session, place, name), read / "trash", REFERENCE_SCHEMA)
    placed = _written(session, placements(session, place, name), read / "placements", REFERENCE_SCHEMA)
    references = begun.unionByName(kept).unionByName(placed)
    orphans = findings.with_owners(orphans_in(data, references, before_ns=before_ns), audited)
    orphans.write.parquet(str(folder / ORPHANS))
    missing = findings.confirmed(missing_in(data, references), audited, place)
    missing.write.parquet(str(folder / MISSING))
    counts = _counted(folder)
    shutil.rmtree(read, ignore_errors=True)
    return counts


def release(session: SparkSession, place: InstallationPlace, folder: Path, location: str, topic: str) -> int:
    """Hands the orphans of an audit to deletion, and counts them. A part that fails is repeated by Spark: a message may
    come twice, and that is safe. Data that does not say whose it is stays, and so do replicas, which were found by
    audits before there was replication."""
    found = session.read.schema(ORPHAN_SCHEMA).parquet(str(folder / ORPHANS))
    orphans = found.where(~F.col("component").isin("", Component.REPLICA.value))
    counted = findings.sent(orphans, place, location, topic)
    return sum(row["sent"] for row in counted.collect())  # a row for each batch


def _written(session: SparkSession, frame: DataFrame, path: Path, schema: StructType) -> DataFrame:
    frame.write.parquet(str(path))
    return session.read.schema(schema).parquet(str(path))


def _counted(folder: Path) -> AuditCounts:
    """From the footers of the files, and of the orphans from two columns: no job of Spark's is needed for that."""
    size = foreign = 0
    for file in (folder / ORPHANS).glob("*.parquet"):
        for batch in pq.ParquetFile(file).iter_batches(columns=["size", "component"]):
            size += pc.sum(batch.column("size")).as_py() or 0
            foreign += pc.sum(pc.equal(batch.column("component"), "")).as_py() or 0
    return AuditCounts(
        listed=_rows(folder / _READ / "data"),
        referenced=_rows(folder / _READ / "placements"),
        orphans=_rows(folder / ORPHANS),
        orphan_bytes=size,
        foreign=foreign,
        missing=_rows(folder / MISSING),
    )


def _rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))
