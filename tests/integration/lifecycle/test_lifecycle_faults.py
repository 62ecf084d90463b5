"""The listing engine with killed processes and races: what is due goes, what is fresh stays, and each is told once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from lifecycle_world import NANOSECOND, World
from running_service import RunningService

MakeService = Callable[..., RunningService]
SHORT_DAY = 3.0
EXPIRE = {"Filter": {"Prefix": "old/"}, "Expiration": {"Days": 1}}


def lifecycle_pids(service: RunningService) -> list[int]:
    modules = ("tidegate.lifecycle.serve", "tidegate.lifecycle.serve_passes")
    return [pid for module in modules for pid in service.pids_of(module)]


def put_all(world: World, bucket: str, keys: list[str]) -> None:
    with ThreadPoolExecutor(8) as executor:
        list(executor.map(lambda key: world.put(bucket, key), keys))


def test_killed_at_random_points_everything_due_goes_and_is_recorded_once(make_service: MakeService) -> None:
    service = make_service(
        lifecycle__engine="listing",
        lifecycle__day_seconds=SHORT_DAY,
        lifecycle__interval_seconds=1,
        lifecycle__listing_limit=20,
        lifecycle__deletes_per_second=60,
        lifecycle__deletes_burst=10,
        topics__lease_seconds=2,
    )
    world = World(service, service.create_pool("killed"))
    doomed = [f"old/{number:03d}" for number in range(150)]
    kept = [f"kept/{number:03d}" for number in range(30)]
    world.bucket("plain", EXPIRE)
    world.bucket("versioned", EXPIRE, versioning="Enabled")
    for bucket in ("plain", "versioned"):
        put_all(world, bucket, doomed + kept)
    chance = random.Random(4)
    for _ in range(6):
        world.wait_until(lambda: bool(lifecycle_pids(service)), "a lifecycle process")
        time.sleep(chance.uniform(0.3, 2.0))
        for pid in lifecycle_pids(service):
            os.kill(pid, signal.SIGKILL)
    for bucket in ("plain", "versioned"):
        world.wait_until(lambda bucket=bucket: world.keys(bucket) == set(kept), f"expiry in {bucket}")  # type: ignore[misc]
    world.wait_for_pass()
    for bucket in ("plain", "versioned"):
        records = world.audits(bucket)
        assert Counter(record["key"] for record in records) == dict.fromkeys(doomed, 1), bucket
        assert {record["outcome"] for record in records} == {"DONE"}
    assert len(world.versions("versioned")) == len(doomed + kept)
    assert len(world.markers("versioned")) == len(doomed)


def test_an_object_rewritten_while_its_delete_runs_is_never_lost(make_service: MakeService) -> None:
    service = make_service(
        lifecycle__engine="listing",
        lifecycle__day_seconds=SHORT_DAY,
        lifecycle__interval_seconds=1,
        lifecycle__listing_limit=50,
    )
    world = World(service, service.create_pool("racing"))
    world.bucket("races", EXPIRE)
    keys = [f"old/{number:03d}" for number in range(60)]
    put_all(world, "races", keys)
    end = time.monotonic() + 15

    def rewrite(share: list[str]) -> None:
        chance = random.Random(share[0])
        while time.monotonic() < end:
            world.put("races", chance.choice(share))
            time.sleep(chance.uniform(0, 0.1))

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(rewrite, [keys[number::4] for number in range(4)]))
    world.wait_until(lambda: not world.keys("races"), "expiry in the end")
    written: dict[str, float] = {}
    deletions = 0
    for event in world.events("races", "put", "delete"):
        at = event["ts_ns"] / NANOSECOND
        if event["operation"] == "put":
            written[event["key"]] = at
        else:
            deletions += 1
            assert at - written.pop(event["key"]) >= SHORT_DAY, event
    assert deletions >= len(keys)
