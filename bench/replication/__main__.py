"""`python -m bench.replication`: objects replicated to a second store, beside `rclone sync` from store to store.

While the site is paused, clients put the objects through the gateway. Then it is resumed, and what counts is the time
until each version has arrived and its status says so. rclone has the same objects in a bare store and brings them to
the store behind the site, as many at a time, and so does SeaweedFS's own `weed filer.sync`, which has no goal. At the
end stands how long the statuses took after the replicator had acknowledged its last task. Rounds alternate over the
ways; what is shown are medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import click

from bench.gateway.requests import Target
from bench.lifecycle.service_parts import cpu_between, cpu_used
from bench.lifecycle.weed_store import WeedStore, running_weed
from bench.movement import copy_figures
from bench.movement.copy_figures import RCLONE, Case, Figures, check_arrived, rclone
from bench.movement.stores import LOCATION, Stores, client, put_objects, running_stores, target_of
from bench.replication.weed_sync import synchronized
from tidegate.core.replication.messages import POPULATOR_GROUP, REPLICATION_TOPIC
from tidegate.ports import Tables, Topics
from tidegate.replication import pauses
from tidegate.replication.queries import ReplicationQueries
from tidegate.replication.topics import replicator_group

_REPLICATION, _SYNC = "replication", "weed filer.sync"
_SOURCE = "source"
_POLL_SECONDS = 0.05
# By then replicators have seen a pause.
_PAUSE_SECONDS = 2.0
_PATIENCE_SECONDS = 1800.0


@dataclass(slots=True)
class Measured:
    """`lags` are the seconds between the last task, acknowledged, and the last status, one for each round."""

    figures: Figures
    lags: list[float] = field(default_factory=list)


def run(objects: int = 5000, rounds: int = 2, *, as_json: bool = False) -> None:
    """`objects` are the small ones; of the large ones there are 20 where there are 5,000 small ones."""
    cases = [Case("16 KiB", objects, 16 << 10), Case("64 MiB", max(objects // 250, 1), 64 << 20)]
    with running_stores() as stores, running_weed(stores.home / "source") as weed:
        _warm_up(stores)
        found = [_measured(stores, weed, case, rounds) for case in cases]
    if as_json:
        lags = {each.figures.case.name: each.lags for each in found}
        print(copy_figures.as_json([each.figures for each in found], status_lags=lags))
        return
    for each in found:
        lag = statistics.median(each.lags)
        print(f"{each.figures.table()}\nstatuses came {lag:.2f} s after the last task\n", flush=True)


@click.command()
@click.option("--objects", default=5000, help="Objects of 16 KiB; there is one of 64 MiB for 250 of them.")
@click.option("--rounds", default=2, help="How often each way is measured.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def main(objects: int, rounds: int, as_json: bool) -> None:
    """Seconds to replicate objects to a second store, and to synchronize it with rclone."""
    run(objects, rounds, as_json=as_json)


def _warm_up(stores: Stores) -> None:
    case = Case("warm-up", 20, 1 << 10)
    _replicated(stores, "warm-up", case, [f"{number:03}" for number in range(case.objects)], Measured(_figures(case)))


def _figures(case: Case) -> Figures:
    return Figures(case, _REPLICATION)


def _measured(stores: Stores, weed: WeedStore, case: Case, rounds: int) -> Measured:
    found = Measured(_figures(case))
    source = target_of(weed, "source")
    names = [f"{number:07}" for number in range(case.objects)]
    bucket = f"{_SOURCE}-{case.size}"
    client(source).create_bucket(Bucket=bucket)
    put_objects(source, bucket, names, case.size, stores.home / "body")

    def replication(number: int) -> float:
        return _replicated(stores, f"replicated-{case.size}-{number}", case, names, found)

    def rclone_sync(number: int) -> float:
        target = _versioned(stores.location, f"rclone-{case.size}-{number}")
        return rclone("sync", source, bucket, stores.location, target, "", case)

    def weed_sync(number: int) -> float:
        log = stores.home / f"filer-sync-{case.size}-{number}.log"
        return synchronized(weed, bucket, stores.weed, f"weed-{case.size}-{number}", case, log)

    ways: list[tuple[str, Callable[[int], float]]]
    ways = [(_REPLICATION, replication), (RCLONE, rclone_sync), (_SYNC, weed_sync)]
    for number in range(rounds):
        for name, way in ways if number % 2 == 0 else reversed(ways):
            found.figures.seconds.setdefault(name, []).append(way(number))
    return found


def _replicated(stores: Stores, bucket: str, case: Case, names: list[str], found: Measured) -> float:
    """Seconds from the moment that the site is resumed."""
    copies = _versioned(stores.location, f"copies-of-{bucket}")
    _versioned(stores.gateway, bucket)
    client(stores.gateway).put_bucket_replication(Bucket=bucket, ReplicationConfiguration=_rules(copies))
    with stores.state() as (tables, topics):
        uid = ReplicationQueries(tables).uid_of(bucket)
        pauses.pause(tables, LOCATION, now=time.time())
        time.sleep(_PAUSE_SECONDS)
        put_objects(stores.gateway, bucket, names, case.size, stores.home / "body")
        _wait(lambda: topics.lag(stores.settings.metalog.topic, POPULATOR_GROUP) == 0)
        used, began = cpu_used(stores.service.data), time.monotonic()
        pauses.resume(tables, LOCATION)
        done_at = _seen_to(tables, topics, uid)
        seconds = time.monotonic() - began
        found.figures.cpu.append(cpu_between(used, cpu_used(stores.service.data)))
        figures = ReplicationQueries(tables).figures(LOCATION, uid)
    found.lags.append(began + seconds - done_at)
    if (figures.completed.count, figures.failed.count) != (case.objects, 0):
        raise SystemExit(f"{figures.completed.count} versions have arrived, not {case.objects}: {figures}")
    check_arrived(stores.location, copies, "", case)
    return seconds


def _seen_to(tables: Tables, topics: Topics, uid: str) -> float:
    """Waits until nothing is pending any more; gives the moment at which the replicator had no task left."""
    queries, group = ReplicationQueries(tables), replicator_group(LOCATION)
    _wait(lambda: topics.lag(REPLICATION_TOPIC, group) == 0)
    done_at = time.monotonic()
    _wait(lambda: queries.figures(LOCATION, uid).pending.count == 0)
    return done_at


def _wait(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit("replication did not end in time")
        time.sleep(_POLL_SECONDS)


def _versioned(target: Target, bucket: str) -> str:
    store = client(target)
    store.create_bucket(Bucket=bucket)
    store.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


def _rules(copies: str) -> dict[str, object]:
    rule = {
        "ID": "all",
        "Priority": 1,
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "DeleteMarkerReplication": {"Status": "Enabled"},
        "Destination": {"Bucket": f"arn:aws:s3:::{copies}", "StorageClass": LOCATION},
    }
    return {"Role": "arn:aws:iam::000000000000:role/replication", "Rules": [rule]}


if __name__ == "__main__":
    main()
