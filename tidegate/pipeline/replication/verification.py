"""Verification: a bucket beside its sites. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.pipeline.replication import comparison, findings
from tidegate.pipeline.replication.comparison import Lack
from tidegate.pipeline.replication.job import (
    DIFFERENT,
    EXTRA,
    MISSING,
    ComparedBucket,
    compared,
    counted_by,
    rows_in,
    working_folder,
    written,
)
from tidegate.pipeline.replication.record_source import STATE_SCHEMA, recorded_states


@dataclass(frozen=True, slots=True)
class Verified:
    """Versions are counted once for each site. `pending` are those of the `missing` ones that are on their way."""

    compared: int
    missing: int
    pending: int
    different: int
    extra: int


def verify(session: SparkSession, what: ComparedBucket, folder: Path) -> Verified:
    """Writes down what it finds, in a folder that must not exist, and counts it."""
    with working_folder(folder) as read:
        found = compared(session, what, read)
        # After the sites were listed: what was put there meanwhile has its record by now.
        every = written(session, recorded_states(session, what.installation), read / "every", STATE_SCHEMA)
        for name, rows in (
            (MISSING, findings.confirmed_missing(comparison.missing_in(found.wanted, found.copies), what.place)),
            (DIFFERENT, findings.confirmed_different(comparison.different_in(found.wanted, found.copies), what.place)),
            (EXTRA, findings.confirmed_extra(comparison.extra_in(every, found.copies), what.place)),
        ):
            rows.write.parquet(str(folder / name))
        lacks = counted_by(folder / MISSING, "lack")
        return Verified(
            compared=rows_in(read / "wanted"),
            missing=sum(lacks.values()),
            pending=lacks.get((Lack.PENDING.value,), 0),
            different=rows_in(folder / DIFFERENT),
            extra=rows_in(folder / EXTRA),
        )
