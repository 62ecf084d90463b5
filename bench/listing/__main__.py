"""`python -m bench.listing`: buckets listed whole, at the store alone and through the gateway."""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.pool import Pool
from pathlib import Path

import click

from bench.gateway.accounting import cpu_seconds
from bench.gateway.measure import Way, through
from bench.gateway.requests import Target
from bench.gateway.servers import running_tidegate, with_bucket
from bench.goals import word
from bench.listing.client import Listed, list_flat, list_folders
from bench.store_content import fill

_FLAT, _FOLDERS = "flat-keys", "keys-in-folders"
_FANOUT = 10  # folders in each folder, three deep


@dataclass(frozen=True, slots=True)
class Case:
    """What is listed and how; `goal` is the least share of the store's own speed."""

    name: str
    bucket: str
    lists: Callable[[Target, str], Listed]
    goal: float


_CASES = (
    Case("flat keys", _FLAT, list_flat, 0.95),
    Case("keys in folders, no delimiter", _FOLDERS, list_flat, 0.8),
    Case("keys in folders, folder by folder", _FOLDERS, list_folders, 0.8),
)


@dataclass(slots=True)
class Figures:
    """One figure for each round."""

    speeds: dict[str, list[float]] = field(default_factory=dict)
    cpu_ms_per_page: list[float] = field(default_factory=list)


@click.command()
@click.option("--keys", default=100_000, help="Keys in each of the two buckets, a multiple of 1,000.")
@click.option("--rounds", default=3, help="Rounds of each listing; figures are medians.")
def main(keys: int, rounds: int) -> None:
    """Entries per second at the store alone and through the gateway."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home:
        settings = ("lifecycle.enabled=false", "gateway.processes=1", "gateway.port=0", "api.port=0")
        with running_tidegate(Path(home, "tidegate"), *settings) as service:
            store = Way(with_bucket(service, _FLAT).target("store"))
            with_bucket(service, _FOLDERS)
            fill(store.target, _FLAT, [f"entry-{number:07}" for number in range(keys)])
            fill(store.target, _FOLDERS, _keys_in_folders(keys))
            ways = [store, through(service, "gateway")]
            with multiprocessing.get_context("spawn").Pool(1) as client:
                found = {case.name: _measured(case, ways, client, keys, rounds) for case in _CASES}
    print(_table(found, keys))


def _keys_in_folders(count: int) -> list[str]:
    each = range(count // _FANOUT**3)
    folders = [f"{a}/{b}/{c}" for a in range(_FANOUT) for b in range(_FANOUT) for c in range(_FANOUT)]
    return [f"{folder}/entry-{number:05}" for folder in folders for number in each]


def _measured(case: Case, ways: list[Way], client: Pool, keys: int, rounds: int) -> Figures:
    """The ways take turns, and who begins changes with every round."""
    found = Figures({way.target.name: [] for way in ways})
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            used, began = cpu_seconds(way.pids), time.monotonic()
            listed = client.apply(case.lists, (way.target, case.bucket))
            seconds, used = time.monotonic() - began, cpu_seconds(way.pids) - used
            if listed.keys != keys:
                print(f"{case.name}: {way.target.name} showed {listed.keys} keys of {keys}", file=sys.stderr)
            found.speeds[way.target.name].append(keys / seconds)
            if way.pids:
                found.cpu_ms_per_page.append(used / listed.pages * 1e3)
    return found


def _table(found: dict[str, Figures], keys: int) -> str:
    lines = [f"{'entries/s':<36} {'store':>9} {'gateway':>9} {'ratio':>7} {'ms CPU per page':>17}", "-" * 82]
    goals = [f"{keys:,} keys in each bucket; goals:"]
    for case in _CASES:
        figures = found[case.name]
        store, gateway = (statistics.median(figures.speeds[name]) for name in ("store", "gateway"))
        cpu = statistics.median(figures.cpu_ms_per_page)
        lines.append(f"{case.name:<36} {store:9,.0f} {gateway:9,.0f} {gateway / store:7.2f} {cpu:17.2f}")
        goals.append(f"  {case.name:<36} at least {case.goal:.2f}: {word(gateway / store >= case.goal)}")
    return "\n".join([*lines, "", *goals])


if __name__ == "__main__":
    main()
