"""`python -m bench.movement.copies`: objects moved to a location, beside `rclone copy` from store to store.

A move is a real one, asked for as `tidegate move` does it: it is listed, published, copied by the data mover, verified,
and ends when every object has its placement and its stub, and an event in the metadata log. rclone copies from a bare
store to the one behind the location, as many objects at a time, and is done when they lie there. A third way, which has
no goal, is rclone through the gateway: that is how a client would take the same objects out of the pool. Rounds
alternate over the ways; what is shown are medians.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import click

from bench.gateway.requests import Target
from bench.goals import word
from bench.lifecycle.service_parts import cpu_between, cpu_used
from bench.lifecycle.weed_store import running_weed
from bench.movement.stores import (
    CONCURRENCY,
    LOCATION,
    LOCATION_BUCKET,
    Stores,
    client,
    put_objects,
    running_stores,
    target_of,
)
from tidegate.core.locations import Location
from tidegate.movement.moves import Moves

GOAL = 1.0
_MOVE, _RCLONE, _THROUGH = "move", "rclone", "rclone through the gateway"
_SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    objects: int
    size: int


@dataclass(slots=True)
class Figures:
    """Seconds for all objects by way, and the CPU seconds of the service's parts during moves; one for each round."""

    case: Case
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: list[dict[str, float]] = field(default_factory=list)

    def median(self, way: str) -> float:
        return statistics.median(self.seconds[way])

    @property
    def ratio(self) -> float:
        return self.median(_RCLONE) / self.median(_MOVE)


def run(objects: int = 2000, rounds: int = 2, *, as_json: bool = False) -> None:
    """`objects` are the small ones; of the large ones there are a hundredth."""
    cases = [Case("64 KiB", objects, 64 << 10), Case("64 MiB", max(objects // 100, 1), 64 << 20)]
    with running_stores() as stores, running_weed(stores.home / "source") as weed:
        source = target_of(weed, "source")
        client(source).create_bucket(Bucket=_SOURCE)
        _warm_up(stores)
        found = [_measured(stores, source, case, rounds) for case in cases]
    print(_json(found) if as_json else "\n\n".join(map(_table, found)))


@click.command()
@click.option("--objects", default=2000, help="Objects of 64 KiB; there are a hundredth as many of 64 MiB.")
@click.option("--rounds", default=2, help="How often each way is measured.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def main(objects: int, rounds: int, as_json: bool) -> None:
    """Seconds to move objects to a location, and to copy them with rclone."""
    run(objects, rounds, as_json=as_json)


def _warm_up(stores: Stores) -> None:
    """The first move to a location, and the first in a bucket, wait for what all others find done."""
    client(stores.gateway).create_bucket(Bucket="warm-up")
    put_objects(stores.gateway, "warm-up", [f"object-{number}" for number in range(20)], 1 << 10, stores.home / "body")
    move(stores, "warm-up", "", 20)


def _measured(stores: Stores, source: Target, case: Case, rounds: int) -> Figures:
    found, file = Figures(case), stores.home / "body"
    names = [f"{number:07}" for number in range(case.objects)]
    where = f"{case.size}"
    put_objects(source, _SOURCE, [f"{where}/{name}" for name in names], case.size, file)

    def moved(number: int) -> float:
        bucket = f"moved-{where}-{number}"
        client(stores.gateway).create_bucket(Bucket=bucket)
        put_objects(stores.gateway, bucket, ["warm", *(f"many/{name}" for name in names)], case.size, file)
        move(stores, bucket, "warm", 1)
        used = cpu_used(stores.service.data)
        seconds = move(stores, bucket, "many/", case.objects)
        found.cpu.append(cpu_between(used, cpu_used(stores.service.data)))
        return seconds

    def rclone(number: int) -> float:
        return _rclone(source, f"{_SOURCE}/{where}", stores.location, f"rclone-{where}-{number}", case)

    def rclone_through(number: int) -> float:
        bucket = f"left-{where}-{number}"
        client(stores.gateway).create_bucket(Bucket=bucket)
        put_objects(stores.gateway, bucket, names, case.size, file)
        return _rclone(stores.gateway, bucket, stores.location, f"through-{where}-{number}", case)

    ways: list[tuple[str, Callable[[int], float]]]
    ways = [(_MOVE, moved), (_RCLONE, rclone), (_THROUGH, rclone_through)]
    for number in range(rounds):
        for name, way in ways if number % 2 == 0 else reversed(ways):
            found.seconds.setdefault(name, []).append(way(number))
    return found


def move(stores: Stores, bucket: str, prefix: str, expected: int) -> float:
    """Seconds from the request to the moment that the move has ended."""
    with stores.state() as (tables, _):
        location = Location.from_json(tables.get(Location.PREFIX + LOCATION) or "")
        moves = Moves(tables, lambda: [location])
        view = moves.wait(moves.start(bucket, prefix, to=LOCATION, dry_run=False).id, lambda view: None)
    if view.moved != expected or view.ended_at is None:
        raise SystemExit(f"the move did not do what it should: {view}")
    return (view.ended_at - view.began_at).total_seconds()


def _rclone(source: Target, path: str, location: Target, prefix: str, case: Case) -> float:
    remotes = {"FROM": source, "TO": location}
    variables = {
        f"RCLONE_CONFIG_{name}_{option}": value
        for name, target in remotes.items()
        for option, value in {
            "TYPE": "s3",
            "PROVIDER": "SeaweedFS",
            "ENDPOINT": f"http://{target.authority}",
            "ACCESS_KEY_ID": target.access_key,
            "SECRET_ACCESS_KEY": target.secret_key,
        }.items()
    }
    command = [
        str(Path(sys.executable).parent / "rclone"), "copy", f"from:{path}", f"to:{LOCATION_BUCKET}/{prefix}",
        "--config", "/dev/null", "--retries", "1", "--transfers", str(CONCURRENCY), "--checkers", str(CONCURRENCY),
    ]  # fmt: skip
    began = time.monotonic()
    subprocess.run(command, check=True, env={**os.environ, **variables})
    seconds = time.monotonic() - began
    pages = client(location).get_paginator("list_objects_v2").paginate(Bucket=LOCATION_BUCKET, Prefix=f"{prefix}/")
    sizes = [entry["Size"] for page in pages for entry in page.get("Contents", ())]
    if sizes != [case.size] * case.objects:
        raise SystemExit(f"rclone has copied {len(sizes)} objects, not {case.objects}")
    return seconds


def _table(found: Figures) -> str:
    case = found.case
    lines = [f"{f'{case.objects:,} of {case.name}':<30} {'seconds':>8} {'objects/s':>10} {'MiB/s':>8}", "-" * 59]
    for way in found.seconds:
        seconds = found.median(way)
        mib = case.objects * case.size / seconds / (1 << 20)
        lines.append(f"{way:<30} {seconds:8.1f} {case.objects / seconds:10,.1f} {mib:8.1f}")
    used = ", ".join(f"{part} {statistics.median(seconds):.1f}" for part, seconds in _cpu(found).items())
    goal = f"goal {GOAL} x rclone: {found.ratio:.2f}, {word(found.ratio >= GOAL)}"
    return "\n".join([*lines, "", f"CPU seconds of the move: {used}", f"{CONCURRENCY} at a time; {goal}"])


def _cpu(found: Figures) -> dict[str, list[float]]:
    parts = {part: None for used in found.cpu for part in used}
    return {part: [used.get(part, 0.0) for used in found.cpu] for part in parts}


def _json(found: list[Figures]) -> str:
    return json.dumps(
        [
            {
                "objects": each.case.objects,
                "size": each.case.size,
                "seconds": each.seconds,
                "cpu": _cpu(each),
                "ratio": each.ratio,
                "goal": GOAL,
            }
            for each in found
        ],
        indent=2,
    )


if __name__ == "__main__":
    main()
