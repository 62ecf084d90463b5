"""Processes killed at random points, and a service that comes back with another setting: nothing is lost or told twice.

`CRASH_PASSES` says how often something is killed; `make crashes` does it fifty times.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lifecycle_world import World
from running_service import RunningService

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.lifecycle.passes.pass_records import PassProgress
from tidegate.processes import descendants_of

KILLS = int(os.environ.get("CRASH_PASSES", "3"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(10**6))))
DAY = 3.0
EXPIRE = {"Filter": {"Prefix": "old/"}, "Expiration": {"Days": 1}}
MUCH_LATER = {"Expiration": {"Days": 1000}}
BUCKETS = ("plain", "versioned")
VICTIMS = ("tidegate.lifecycle.serve_passes", "tidegate.lifecycle.serve", "tidegate.gateway.serve")
STAGES = ("starting", "landing", "planning", "publishing", "acting", "settling")
# What is killed must start again first, and Spark with it.
PATIENCE = 500.0


@pytest.fixture(scope="module")
def killed(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {
        "lifecycle.day_seconds": DAY,
        "lifecycle.interval_seconds": 1,
        "lifecycle.deletes_per_second": 60,
        "lifecycle.metalog_retention_days": 0,
        "lifecycle.deletes_burst": 10,
        "topics.lease_seconds": 4,
    }
    service = RunningService(tmp_path_factory.mktemp("killed") / "data", settings)
    try:
        service.start()
        world = World(service, service.create_pool("killed"))
        world.bucket("plain", EXPIRE)
        world.bucket("versioned", EXPIRE, versioning="Enabled")
        world.bucket("later", MUCH_LATER)
        yield world
    finally:
        service.end()


def await_moment(world: World, chance: random.Random) -> None:
    """Somewhere in a stage of a pass that chance chooses; a stage that is too short to be seen is not waited for."""
    stage = chance.choice(STAGES)
    tables = SqliteTables(world.service.data / "tables.db")
    deadline = time.monotonic() + 10 * DAY
    try:
        while time.monotonic() < deadline:
            progress = PassProgress.load(tables)
            if progress is not None and progress.stage == stage:
                break
            time.sleep(0.01)
    finally:
        tables.close()
    time.sleep(chance.uniform(0, 0.5))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def put_all(world: World, keys: list[str]) -> None:
    with ThreadPoolExecutor(8) as executor:
        for bucket in BUCKETS:
            list(executor.map(lambda key, bucket=bucket: world.put(bucket, key), keys))  # type: ignore[misc]


@pytest.mark.timeout(900 + 60 * KILLS)
def test_killed_at_random_points_exactly_what_is_due_goes_and_each_deletion_is_told_once(killed: World) -> None:
    print(f"CRASH_SEED={SEED}")
    chance = random.Random(SEED)
    kept = [f"kept/{number}" for number in range(10)]
    put_all(killed, kept)
    killed.wait_for_pass()
    doomed: list[str] = []
    for number in range(KILLS):
        fresh = [f"old/{number:02d}-{index:02d}" for index in range(20)]
        put_all(killed, fresh)
        doomed += fresh
        # Each kind of process gets its turn; which moment it is, chance decides.
        victim = VICTIMS[number % len(VICTIMS)]
        killed.wait_until(lambda victim=victim: bool(killed.service.pids_of(victim)), victim)  # type: ignore[misc]
        await_moment(killed, chance)
        for pid in killed.service.pids_of(victim)[:1]:
            os.kill(pid, signal.SIGKILL)
    for bucket in BUCKETS:
        killed.wait_until(
            lambda bucket=bucket: killed.keys(bucket) == set(kept),  # type: ignore[misc]
            f"expiry in {bucket}",
            PATIENCE,
        )
    killed.wait_for_pass()
    for bucket in BUCKETS:
        records = killed.audits(bucket)
        done = Counter(record["key"] for record in records if record["outcome"] == "DONE")
        assert done == dict.fromkeys(doomed, 1), bucket
        assert {record["outcome"] for record in records} <= {"DONE", "NOOP_RESOLVED", "RETRY_LATER"}
    assert len(killed.markers("versioned")) == len(doomed)
    assert len(killed.versions("versioned")) == len(doomed + kept)
    assert killed.keys("plain") == set(kept)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_process_of_the_passes_ends_so_does_its_jvm(killed: World, number: int) -> None:
    killed.wait_for_pass()
    (passes,) = killed.service.pids_of(VICTIMS[0])
    below = descendants_of(passes)
    assert below
    os.kill(passes, number)
    killed.wait_until(lambda: not any(map(alive, [passes, *below])), "the end of the JVM")
    killed.wait_until(lambda: killed.service.pids_of(VICTIMS[0]) not in ([], [passes]), "another one")


def test_a_log_that_is_kept_shorter_than_a_rules_days_has_the_bucket_walked_and_no_other(killed: World) -> None:
    killed.wait_for_pass()
    before = len(killed.passes())
    killed.service.stop()
    killed.service.settings["lifecycle.metalog_retention_days"] = 100
    killed.service.start()
    killed.s3 = killed.service.s3(killed.key)

    def recovered() -> dict[str, dict[str, int]]:
        details = [detail for report in killed.passes()[before:] for detail in report["details"]]
        return {detail["bucket"]: detail["recoveries"] for detail in details if detail["recoveries"]}

    killed.wait_until(lambda: bool(recovered()), "a recovery")
    killed.wait_for_pass()
    assert recovered() == {"later": {"partition-flip": 16}}
