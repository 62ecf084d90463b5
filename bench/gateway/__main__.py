"""`python -m bench.gateway`: measures the gateway beside nginx and prints a table, or JSON with `--json`."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from bench.gateway.measure import MIB, Driver, Series, Way, idle_memory, rounds, through
from bench.gateway.report import as_table, failed_requests
from bench.gateway.requests import UNSIGNED_PAYLOAD, Target
from bench.gateway.servers import running_nginx, running_tidegate, with_bucket

BUCKET = "bench-bucket"
SMALL_BYTES = 1024
SMALL_KEYS = 2000
LARGE_BYTES = 64 * MIB
LARGE_CONNECTIONS = 2


@dataclass(frozen=True, slots=True)
class Options:
    seconds: float
    connections: int
    processes: int
    rounds: int
    large_bodies: int
    idle_connections: int


@click.command()
@click.option("--seconds", default=2.5, help="Length of one round of small requests.")
@click.option("--connections", default=16, help="Connections of the load generator.")
@click.option("--processes", default=1, help="Gateway processes, and nginx workers.")
@click.option("--rounds", "count", default=3, help="Rounds over all targets; figures are medians.")
@click.option("--large-bodies", default=4, help="Bodies of 64 MiB in one round.")
@click.option("--idle-connections", default=1000, help="Connections for the memory figure.")
@click.option("--without-log-cost", is_flag=True, help="Leave out the second service and the cost of the log.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def main(
    seconds: float,
    connections: int,
    processes: int,
    count: int,
    large_bodies: int,
    idle_connections: int,
    without_log_cost: bool,
    as_json: bool,
) -> None:
    """Same backend, same client: direct, through nginx and through Tidegate."""
    options = Options(seconds, connections, processes, count, large_bodies, idle_connections)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        driver = Driver(stack.enter_context(multiprocessing.get_context("spawn").Pool(1)))
        with three_ways(directory, options) as ways:
            results = compare(ways, driver, options, directory)
        if not without_log_cost:
            results["log"] = log_cost(directory, driver, options)
    print(json.dumps(results, indent=2) if as_json else as_table(results))
    if failed_requests(results):
        raise SystemExit(1)


@contextmanager
def three_ways(directory: Path, options: Options) -> Iterator[list[Way]]:
    with running_tidegate(directory / "tidegate", *_service_settings(options)) as service:
        backend = with_bucket(service, BUCKET)
        with running_nginx(directory / "nginx", backend.address, options.processes) as nginx:
            yield [
                Way(backend.target("direct")),
                Way(Target("nginx", "127.0.0.1", nginx.port, backend.access_key, backend.secret_key), nginx.workers),
                through(service, "tidegate"),
            ]


def compare(ways: list[Way], driver: Driver, options: Options, directory: Path) -> dict[str, Any]:
    puts = {way.target.name: way.target.small_puts(BUCKET, SMALL_KEYS, SMALL_BYTES) for way in ways}
    gets = {way.target.name: way.target.small_gets(BUCKET, SMALL_KEYS) for way in ways}
    for way in ways:  # writes every key once, so that all reads find theirs, and warms everything up
        driver.each_once(way, puts[way.target.name], connections=options.connections, into=Series())

    def small(requests: dict[str, list[bytes]], connections: int, seconds: float) -> dict[str, Any]:
        def one(way: Way, into: Series) -> None:
            driver.for_seconds(way, requests[way.target.name], connections=connections, seconds=seconds, into=into)

        return _figures(rounds(ways, options.rounds, one))

    kinds = {"get": gets, "put": puts}
    return {
        "options": asdict(options),
        "cores": os.cpu_count(),
        # First of all, while the processes are young: memory that a load has left behind would hide the connections'.
        "idle": {
            way.target.name: idle_memory(way, gets[way.target.name][0], options.idle_connections) for way in ways[1:]
        },
        "small": {kind: small(requests, options.connections, options.seconds) for kind, requests in kinds.items()},
        "unloaded": {kind: small(requests, 1, options.seconds / 3) for kind, requests in kinds.items()},
        "large": _large(ways, driver, options, directory),
    }


def log_cost(directory: Path, driver: Driver, options: Options) -> dict[str, Any]:
    """Two services that differ in nothing but the log, in alternating rounds, each with a fresh backend."""
    common = _service_settings(options)
    with (
        running_tidegate(directory / "log-on", *common) as on,
        running_tidegate(directory / "log-off", *common, "metalog.enabled=false") as off,
    ):
        with_bucket(on, BUCKET)
        with_bucket(off, BUCKET)
        ways = [through(on, "on"), through(off, "off")]
        puts = {way.target.name: way.target.small_puts(BUCKET, SMALL_KEYS, SMALL_BYTES) for way in ways}
        for way in ways:
            driver.each_once(way, puts[way.target.name], connections=options.connections, into=Series())

        def one(way: Way, into: Series) -> None:
            requests = puts[way.target.name]
            driver.for_seconds(way, requests, connections=options.connections, seconds=options.seconds, into=into)

        result = _figures(rounds(ways, options.rounds + 1, one))
    return {**result, "share": 1 - result["on"]["rate"] / result["off"]["rate"]}


def _large(ways: list[Way], driver: Driver, options: Options, directory: Path) -> dict[str, Any]:
    """PUT with the payload unsigned, where every way has the same to do, and with its digest signed, where Tidegate
    also checks the digest and the other two do not."""
    file = directory / "body"
    file.write_bytes(os.urandom(MIB) * (LARGE_BYTES // MIB))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()

    def over(heads: dict[str, list[bytes]], body_file: str = "") -> dict[str, Any]:
        def one(way: Way, into: Series) -> None:
            requests = heads[way.target.name]
            driver.each_once(way, requests, connections=LARGE_CONNECTIONS, body_file=body_file, into=into)

        return _figures(rounds(ways, options.rounds, one))

    def puts(proof: str) -> dict[str, list[bytes]]:
        count = options.large_bodies
        return {way.target.name: way.target.large_put_heads(BUCKET, count, LARGE_BYTES, proof) for way in ways}

    unsigned = over(puts(UNSIGNED_PAYLOAD), str(file))
    signed = over(puts(digest), str(file))
    read = over({way.target.name: way.target.large_gets(BUCKET, options.large_bodies) for way in ways})
    return {"get": read, "put": unsigned, "put, digest signed": signed}


def _service_settings(options: Options) -> tuple[str, ...]:
    return (f"gateway.processes={options.processes}", "gateway.port=0", "api.port=0")


def _figures(series: dict[str, Series]) -> dict[str, dict[str, float]]:
    return {name: one.figures() for name, one in series.items()}


if __name__ == "__main__":
    main()
