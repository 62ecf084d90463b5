"""`python -m bench.movement.copies`: objects moved to a location, beside `rclone copy` from store to store.

A move is a real one, asked for as `tidegate move` does it: it is listed, published, copied by the data mover, verified,
and ends when every object has its placement and its stub, and an event in the metadata log. rclone copies from a bare
store to the one behind the location, as many objects at a time, and is done when they lie there. A third way, which has
no goal, is rclone through the gateway: that is how a client would take the same objects out of the pool. Rounds
alternate over the ways; what is shown are medians.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from bench.gateway.requests import Target
from bench.lifecycle.service_parts import cpu_between, cpu_used
from bench.lifecycle.weed_store import running_weed
from bench.movement import copy_figures
from bench.movement.copy_figures import RCLONE, Case, Figures, rclone
from bench.movement.stores import (
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

_MOVE, _THROUGH = "move", "rclone through the gateway"
_SOURCE = "source"


def run(objects: int = 2000, rounds: int = 2, *, as_json: bool = False) -> None:
    """`objects` are the small ones; of the large ones there are a hundredth."""
    cases = [Case("64 KiB", objects, 64 << 10), Case("64 MiB", max(objects // 100, 1), 64 << 20)]
    with running_stores() as stores, running_weed(stores.home / "source") as weed:
        source = target_of(weed, "source")
        client(source).create_bucket(Bucket=_SOURCE)
        _warm_up(stores)
        found = [_measured(stores, source, case, rounds) for case in cases]
    print(copy_figures.as_json(found) if as_json else "\n\n".join(each.table() for each in found))


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
    found, file = Figures(case, _MOVE), stores.home / "body"
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

    def copy(source: Target, path: str, prefix: str) -> float:
        return rclone("copy", source, path, stores.location, LOCATION_BUCKET, prefix, case)

    def rclone_copy(number: int) -> float:
        return copy(source, f"{_SOURCE}/{where}", f"rclone-{where}-{number}")

    def rclone_through(number: int) -> float:
        bucket = f"left-{where}-{number}"
        client(stores.gateway).create_bucket(Bucket=bucket)
        put_objects(stores.gateway, bucket, names, case.size, file)
        return copy(stores.gateway, bucket, f"through-{where}-{number}")

    ways: list[tuple[str, Callable[[int], float]]]
    ways = [(_MOVE, moved), (RCLONE, rclone_copy), (_THROUGH, rclone_through)]
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


if __name__ == "__main__":
    main()
