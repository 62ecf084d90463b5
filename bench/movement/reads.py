"""`python -m bench.movement.reads`: the first byte of a moved object, through the gateway and directly at its location.

One client with one connection to each reads the same objects in turns: through the gateway under their own keys, and in
the location under the keys of their data. What is measured is the time from the request to the first byte of the
object; the rest is read before the next request.
"""

from __future__ import annotations

import json
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from bench.gateway.requests import Target
from bench.goals import word
from bench.movement.copies import move
from bench.movement.stores import LOCATION_BUCKET, Stores, client, put_objects, running_stores
from tidegate.core.placements import PLACEMENTS, Placement
from tidegate.table_pages import every

GOAL = 1.3
_SIZES = {"1 KiB": 1 << 10, "1 MiB": 1 << 20}
_OBJECTS = 50
_WARM_READS = 20


@dataclass(slots=True)
class Figures:
    """Seconds to the first byte."""

    size: str
    gateway: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.gateway) / statistics.median(self.direct)


class _Reader:
    """A connection to a target, and the time to the first byte of what it reads."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._socket: socket.socket = target.connect(timeout=60)

    def first_byte(self, path: str, size: int) -> float:
        request = self._target.head("GET", path)
        began = time.perf_counter()
        self._socket.sendall(request)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0 or len(received) == end + 4:
            received += self._more(path)
        seconds = time.perf_counter() - began
        left = size - (len(received) - end - 4)
        if not received.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{self._target.name} answered GET {path} with {received[:60]!r}")
        while left:
            left -= len(self._more(path))
        return seconds

    def _more(self, path: str) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise SystemExit(f"{self._target.name} broke off GET {path}")
        return data


def run(reads: int = 500, *, as_json: bool = False) -> None:
    with running_stores() as stores:
        found = [_measured(stores, name, size, reads) for name, size in _SIZES.items()]
    print(_json(found) if as_json else _table(found))


@click.command()
@click.option("--reads", default=500, help="Reads of each size, in each way.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def main(reads: int, as_json: bool) -> None:
    """Latency of the first byte of a moved object, through the gateway and at its location."""
    run(reads, as_json=as_json)


def _measured(stores: Stores, name: str, size: int, reads: int) -> Figures:
    bucket = f"read-{size}"
    client(stores.gateway).create_bucket(Bucket=bucket)
    keys = [f"object-{number:05}" for number in range(_OBJECTS)]
    put_objects(stores.gateway, bucket, keys, size, stores.home / "body")
    move(stores, bucket, "", len(keys))
    paths = _paths(stores, bucket)
    gateway, direct = _Reader(stores.gateway), _Reader(stores.location)
    for through, at_location in paths[:_WARM_READS]:
        gateway.first_byte(through, size)
        direct.first_byte(at_location, size)
    found = Figures(name)
    for number in range(reads):
        through, at_location = paths[number % len(paths)]
        turns = [(found.gateway, gateway, through), (found.direct, direct, at_location)]
        for figures, reader, path in turns if number % 2 == 0 else reversed(turns):
            figures.append(reader.first_byte(path, size))
    return found


def _paths(stores: Stores, bucket: str) -> list[tuple[str, str]]:
    """Of each object, its path at the gateway and that of its data in the location."""
    with stores.state() as (tables, _):
        records = [Placement.from_json(text) for _, text in every(tables, PLACEMENTS)]
    return [
        (f"/{bucket}/{record.key}", f"/{LOCATION_BUCKET}/{record.data_key}")
        for record in records
        if record.bucket == bucket
    ]


def _quantiles(seconds: Sequence[float]) -> str:
    """The first one is what moments show in which the machine does nothing else."""
    ordered = sorted(seconds)
    return ", ".join(f"{ordered[int(len(ordered) * share)] * 1e3:.2f}" for share in (0.1, 0.5, 0.9))


def _table(found: list[Figures]) -> str:
    lines = [f"{'ms to the first byte, p10, p50, p90':<36} {'location':>20} {'gateway':>20} {'ratio':>7}", "-" * 86]
    goals = []
    for each in found:
        direct, gateway = map(_quantiles, (each.direct, each.gateway))
        lines.append(f"{each.size:<36} {direct:>20} {gateway:>20} {each.ratio:7.2f}")
        goals.append(f"{each.size}: {word(each.ratio <= GOAL)}")
    return "\n".join([*lines, "", f"{len(found[0].direct)} reads; goal at most {GOAL} at p50: {', '.join(goals)}"])


def _json(found: list[Figures]) -> str:
    figures = [
        {"size": each.size, "ratio": each.ratio, "goal": GOAL, "gateway": each.gateway, "direct": each.direct}
        for each in found
    ]
    return json.dumps(figures, indent=2)


if __name__ == "__main__":
    main()
