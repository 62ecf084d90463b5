"""`python -m bench.mixed`: reads, writes and deletes side by side, at the store alone and through the gateway."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections import defaultdict
from pathlib import Path

import click

from bench.gateway.load import Job
from bench.gateway.measure import Driver, Series, Way, rounds, through
from bench.gateway.servers import running_tidegate, with_bucket
from bench.goals import word
from bench.mixed.operations import BUCKET, SHARES, Mixed, prepared

GOAL_RATIO = 0.75
GOAL_DELETE = 1.7
_STORE, _GATEWAY = "store", "gateway"

# Sorted latencies in seconds, by way and kind of operation.
Latencies = dict[tuple[str, str], list[float]]


@click.command()
@click.option("--operations", "count", default=2000, help="Operations in one round.")
@click.option("--objects", default=500, help="Objects that are read.")
@click.option("--connections", default=16, help="Connections of the load generator.")
@click.option("--processes", default=1, help="Gateway processes.")
@click.option("--rounds", "number_of_rounds", default=7, help="Rounds over both ways; rates and CPU are medians.")
@click.option("--seed", default=1, help="Order, sizes and keys depend on it alone.")
def main(count: int, objects: int, connections: int, processes: int, number_of_rounds: int, seed: int) -> None:
    """45 % GET, 30 % HEAD, 15 % PUT and 10 % DELETE of objects of 1 KiB to 1 MiB."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home:
        settings = ("lifecycle.enabled=false", f"gateway.processes={processes}", "gateway.port=0", "api.port=0")
        with (
            running_tidegate(Path(home, "tidegate"), *settings) as service,
            multiprocessing.get_context("spawn").Pool(1) as pool,
        ):
            ways = [Way(with_bucket(service, BUCKET).target(_STORE)), through(service, _GATEWAY)]
            loads = {way.target.name: prepared(way.target, count=count, objects=objects, seed=seed) for way in ways}
            series, latencies = _measured(ways, loads, Driver(pool), connections, number_of_rounds)
    print(_table(series, latencies))
    if any(one.failures for one in series.values()):
        raise SystemExit(1)


def _measured(
    ways: list[Way], loads: dict[str, Mixed], driver: Driver, connections: int, count: int
) -> tuple[dict[str, Series], Latencies]:
    def job(way: Way, requests: list[bytes]) -> Job:
        return Job(way.target.host, way.target.port, requests, connections, seconds=600, limit=len(requests))

    latencies: Latencies = defaultdict(list)

    def one(way: Way, into: Series) -> None:
        load = loads[way.target.name]
        outcome = driver.run(way, job(way, load.requests), into)
        for number, seconds in zip(outcome.answered, outcome.latencies, strict=True):
            latencies[way.target.name, load.kinds[number]].append(seconds)

    for way in ways:  # what is read must be there; one round that does not count warms everything up
        for requests in (loads[way.target.name].before, loads[way.target.name].requests):
            driver.run(way, job(way, requests), Series())
    series = rounds(ways, count, one)
    for found in latencies.values():
        found.sort()
    return series, latencies


def _table(series: dict[str, Series], latencies: Latencies) -> str:
    store, gateway = series[_STORE].figures(), series[_GATEWAY].figures()
    ratio = gateway["rate"] / store["rate"]
    lines = [_row("", _STORE, _GATEWAY, "ratio"), "-" * 72]
    lines.append(_row("operations/s", f"{store['rate']:.0f}", f"{gateway['rate']:.0f}", f"{ratio:.2f}"))
    lines.append(_row("µs CPU of the gateway per operation", "", f"{gateway['cpu']:.0f}", ""))
    for kind in SHARES:
        for point, hundredths in (("median", 50), ("p99", 99)):
            alone, proxied = (_at(latencies[name, kind], hundredths) * 1e3 for name in (_STORE, _GATEWAY))
            lines.append(_row(f"{kind}, ms, {point}", f"{alone:.2f}", f"{proxied:.2f}", f"{proxied / alone:.2f}"))
    slower = _at(latencies[_GATEWAY, "DELETE"], 50) / _at(latencies[_STORE, "DELETE"], 50)
    goals = [
        ("operations/s, gateway / store", ratio, f"at least {GOAL_RATIO}", ratio >= GOAL_RATIO),
        ("median of DELETE, gateway / store", slower, f"at most {GOAL_DELETE}", slower <= GOAL_DELETE),
    ]
    lines += ["", f"failed requests: {series[_STORE].failures + series[_GATEWAY].failures}", "", "goals:"]
    lines += [f"  {name:36} {value:6.2f}  ({limit}: {word(reached)})" for name, value, limit, reached in goals]
    return "\n".join(lines)


def _at(ordered: list[float], hundredths: int) -> float:
    return ordered[len(ordered) * hundredths // 100]


def _row(name: str, *cells: str) -> str:
    return f"{name:<38}" + "".join(f"{cell:>11}" for cell in cells)


if __name__ == "__main__":
    main()
