"""`python -m bench.lifecycle.planning`: the plan of a pass on Spark beside the same work done by DuckDB.

Generated logs of several sizes, 20 buckets, 100 rules, one day newly due; then a pass with nothing new.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from pyspark.sql import SparkSession

from bench.goals import word
from bench.lifecycle import duckdb_plan
from bench.lifecycle.generated_log import GeneratedLog, generate
from tidegate.core.shards import SHARDS
from tidegate.pipeline.log.event_columns import NS_PER_DAY
from tidegate.pipeline.plan.planning import Replayed, make_plan
from tidegate.pipeline.session.warm_session import WarmSession
from tidegate.pipeline.walk.listing_source import WalkedBucket
from tidegate.settings import Settings

GOAL_RATIO = 2.0
GOAL_IDLE_SECONDS = 5.0
_SIZES = (1.0, 10.0, 30.0)
_WARM_UP = 3
_HOUR_NS = NS_PER_DAY // 24


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one size: seconds, and how much of what was planned."""

    events: int
    due: int
    spark_seconds: float
    duckdb_seconds: float
    idle_seconds: float
    jvm_mib: int

    @property
    def ratio(self) -> float:
        return self.spark_seconds / self.duckdb_seconds


def run(sizes: Sequence[float] = _SIZES, rounds: int = 3) -> None:
    """Prints a table; `sizes` are millions of events."""
    home = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        found = [_measured(home / f"{size:g}", round(size * 1_000_000), rounds) for size in sizes]
        print(_table(found))
    finally:
        shutil.rmtree(home)


@click.command()
@click.option("--sizes", default="1,10,30", help="Millions of events, one log for each.")
@click.option("--rounds", default=3, help="Rounds of each; figures are medians.")
def main(sizes: str, rounds: int) -> None:
    """Time to plan on Spark and with DuckDB, over the same files."""
    run([float(size) for size in sizes.split(",")], rounds)


def _measured(folder: Path, events: int, rounds: int) -> Figures:
    """The session in which the log was made ends, so that the one of the plans is set up for a log of its size."""
    warm = WarmSession(Settings(), folder)
    try:
        log = generate(warm.get(), folder, events)
        warm.end()
        return _compared(warm.get(), log, folder, rounds)
    finally:
        warm.end()
        shutil.rmtree(folder)


def _compared(session: SparkSession, log: GeneratedLog, folder: Path, rounds: int) -> Figures:
    """Both take turns. The first rounds of Spark are left out: a pass comes to a session that is warm."""
    after_ns = log.until_ns - NS_PER_DAY
    spark, duck, idle = [], [], []
    for number in range(_WARM_UP + rounds):
        seconds, due = planned_by_spark(session, log, folder / f"plan-{number}", after_ns, log.until_ns)
        spark.append(seconds)
        began = time.monotonic()
        also_due = duckdb_plan.plan(log, folder / f"duckdb-{number}.parquet", after_ns=after_ns)
        duck.append(time.monotonic() - began)
        if due != also_due:
            raise SystemExit(f"Spark planned {due} actions, and DuckDB {also_due}: they must agree")
        seconds, none = planned_by_spark(session, log, folder / f"idle-{number}", log.until_ns, log.until_ns + _HOUR_NS)
        idle.append(seconds)
        if none:
            raise SystemExit(f"{none} actions were planned where nothing was due")
    typical = [statistics.median(seconds[_WARM_UP:]) for seconds in (spark, duck, idle)]
    return Figures(log.events, due, *typical, jvm_mib=_jvm_memory(session))


def planned_by_spark(
    session: SparkSession, log: GeneratedLog, target: Path, after_ns: int, until_ns: int
) -> tuple[float, int]:
    """The seconds that the plan took, and how many actions it has."""
    replayed = [
        Replayed(
            bucket,
            dict.fromkeys(range(SHARDS), after_ns),
            WalkedBucket(bucket.uid, bucket.uid, "owner", "http://nowhere.invalid", "", ""),
        )
        for bucket in log.buckets
    ]
    began = time.monotonic()
    plans = make_plan(session, log.table, target, now_ns=until_ns, until_ns=until_ns, walked=[], replayed=replayed)
    return time.monotonic() - began, sum(sum(plan.planned.values()) for plan in plans.values())


def _table(found: Sequence[Figures]) -> str:
    lines = [f"{'events':>12} {'newly due':>10} {'Spark':>8} {'DuckDB':>8} {'ratio':>7} {'nothing new':>12}", "-" * 62]
    lines += [
        f"{one.events:12,} {one.due:10,} {one.spark_seconds:6.2f} s {one.duckdb_seconds:6.2f} s "
        f"{one.ratio:7.2f} {one.idle_seconds:10.2f} s"
        for one in found
    ]
    python_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    jvm = ", ".join(f"{one.jvm_mib} MiB" for one in found)
    lines += ["", f"peak memory of the driver: JVM {jvm}; Python with DuckDB {python_mib} MiB", "", "goals:"]
    for one in found:
        lines.append(f"  {one.events:,}: ratio {one.ratio:.2f} (at most {GOAL_RATIO}: {word(one.ratio <= GOAL_RATIO)})")
        reached = word(one.idle_seconds < GOAL_IDLE_SECONDS)
        lines.append(
            f"  {one.events:,}: nothing new {one.idle_seconds:.2f} s (under {GOAL_IDLE_SECONDS:g} s: {reached})"
        )
    return "\n".join(lines)


def _jvm_memory(session: SparkSession) -> int:
    """The most that the driver's JVM ever had in memory, in MiB; on `local` the executors are in it."""
    pid = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    status = Path("/proc", str(pid), "status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) // 1024


if __name__ == "__main__":
    main()
