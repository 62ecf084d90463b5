"""Rules taken back, objects tagged anew and lifecycle stopped while deletions are under way, on a real store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event as Flag
from typing import Any

import pytest
from lifecycle_world import NANOSECOND, World
from running_service import RunningService

from tidegate import assembly
from tidegate.lease import KeptLease
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.acting.object_processor import ObjectProcessor
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import chosen, reconcile
from tidegate.lifecycle.passes.bucket_pass import PassClock
from tidegate.lifecycle.passes.bucket_reading import read_buckets
from tidegate.lifecycle.passes.listing_planner import ListingPlanner
from tidegate.lifecycle.passes.pass_lock import PassLock
from tidegate.lifecycle.passes.pass_watch import PassWatch
from tidegate.lifecycle.passes.planner import PassContext
from tidegate.lifecycle.topics import WORKERS, backlog, create_topics
from tidegate.movement.copy_progress import CopyProgress
from tidegate.movement.placer import Placer
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.settings import load
from tidegate.workers.rate import InstallationRate

MakeService = Callable[..., RunningService]
SHORT_DAY = 3.0
EXPIRE = {"Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
PER_REQUEST = 100
OBJECTS = 1500


def put_all(world: World, bucket: str, keys: list[str], **options: Any) -> None:
    with ThreadPoolExecutor(8) as executor:
        list(executor.map(lambda key: world.put(bucket, key, **options), keys))


# --- one step at a time ---------------------------------------------------------------------------


class Roles:
    """The roles of lifecycle in the test's own hands, beside a service that has none."""

    def __init__(self, service: RunningService) -> None:
        data = self.data = service.data
        self.settings = load(data)
        self.lifecycle = self.settings.lifecycle.model_copy(update={"day_seconds": 0.1})
        self.tables, self.topics = assembly.open_tables(self.settings, data), assembly.open_topics(self.settings, data)
        create_topics(self.topics)
        registry = Registry(self.tables, Vault.open(data), data, self.settings)
        self.stores = Stores(registry, partial(assembly.open_store, service.s3_url))

    def plan(self, name: str) -> int:
        """Publishes what is due in a bucket; gives the number of tasks."""
        time.sleep(1.5)  # listings have whole seconds
        settings = self.settings.model_copy(update={"lifecycle": self.lifecycle})
        planner = ListingPlanner(PassContext(self.tables, self.topics, self.stores, settings, self.data, ""))
        kept = KeptLease(PassLock(self.tables, seconds=60), seconds=60)
        watch = PassWatch(stop=Flag(), lock=kept, seconds=600, cancel=planner.cancel)
        reconcile(self.tables)
        now_ns = time.time_ns()
        known = read_buckets(self.tables, self.stores, self.lifecycle, chosen(self.tables, name), now_ns=now_ns)
        folder = self.data / "plans" / str(now_ns)
        planner.plan(list(known), PassClock(now_ns, now_ns, 0, 0, 0, 0, 0), folder, watch)
        return planner.publish(folder, pass_id="pass", watch=watch).total

    def act(self, name: str) -> Counter[tuple[str, str, str]]:
        """Carries out what is queued: by key, outcome and reason."""
        ends = AuditTrail(self.topics).ends()
        progress = CopyProgress(self.tables, self.topics, deletion_topic=self.settings.deletion.topic)
        with ThreadPoolExecutor(4) as executor:
            processor = ObjectProcessor(
                self.tables,
                self.topics,
                self.stores,
                self.lifecycle,
                Placer(self.tables, progress, self.stores),
                rate=InstallationRate(self.tables, WORKERS),
                executor=executor,
                threads=4,
                lease_seconds=30,
                stop=Flag(),
            )
            while backlog(self.topics):
                processor.run_once()
            processor.close()
        return Counter(
            (record.task.key, record.outcome.value, record.reason) for record in AuditTrail(self.topics).since(ends)
        )

    def close(self) -> None:
        self.stores.close()
        self.topics.close()
        self.tables.close()


@pytest.fixture(scope="module")
def still(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service without lifecycle."""
    service = RunningService(tmp_path_factory.mktemp("still") / "data", {"lifecycle.enabled": False})
    try:
        service.start()
        yield World(service, service.create_pool("still"))
    finally:
        service.end()


@pytest.fixture
def roles(still: World) -> Iterator[Roles]:
    made = Roles(still.service)
    yield made
    made.close()


def disabled(world: World, bucket: str) -> None:
    world.rules(bucket, EXPIRE | {"Status": "Disabled"})


def delayed(world: World, bucket: str) -> None:
    world.rules(bucket, EXPIRE | {"Expiration": {"Days": 100_000_000}})


def deleted(world: World, bucket: str) -> None:
    world.s3.delete_bucket_lifecycle(Bucket=bucket)


@pytest.mark.parametrize("taken_back", [deleted, disabled, delayed])
def test_objects_stay_when_their_rule_was_taken_back_before_the_worker_came(
    still: World, roles: Roles, taken_back: Callable[[World, str], None]
) -> None:
    bucket = still.bucket(f"rule-{taken_back.__name__}", EXPIRE)
    keys = [f"k{number:02d}" for number in range(12)]
    put_all(still, bucket, keys)
    assert roles.plan(bucket) == 12
    taken_back(still, bucket)
    assert roles.act(bucket) == {(key, "NOOP_RESOLVED", "rule changed"): 1 for key in keys}
    assert still.keys(bucket) == set(keys)


@pytest.mark.parametrize("versioning", ["", "Enabled"])
def test_objects_that_were_tagged_anew_stay(still: World, roles: Roles, versioning: str) -> None:
    tagged = {"Filter": {"Tag": {"Key": "temporary", "Value": "yes"}}, "Expiration": {"Days": 1}}
    bucket = still.bucket(f"tagged-{versioning.lower() or 'plain'}", tagged, versioning=versioning)
    put_all(still, bucket, ["retagged", "untagged", "same", "gone"], Tagging="temporary=yes")
    put_all(still, bucket, ["never"])
    assert roles.plan(bucket) == 4
    kept = {"TagSet": [{"Key": "temporary", "Value": "no"}]}
    still.s3.put_object_tagging(Bucket=bucket, Key="retagged", Tagging=kept)
    still.s3.delete_object_tagging(Bucket=bucket, Key="untagged")
    still.s3.delete_object(Bucket=bucket, Key="gone")
    found = {key: (outcome, reason) for key, outcome, reason in roles.act(bucket)}
    assert found["retagged"] == found["untagged"] == ("NOOP_RESOLVED", "tags changed")
    assert found["same"] == ("DONE", "") and found["gone"][0] == "NOOP_RESOLVED"
    assert still.keys(bucket) == {"retagged", "untagged", "never"}


def test_a_noncurrent_version_stays_when_newer_ones_are_gone(still: World, roles: Roles) -> None:
    keeps = {"NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 1}}
    bucket = still.bucket("keeps-one", keeps, versioning="Enabled")
    versions = {key: [still.put(bucket, key)[0] for _ in range(3)] for key in ("fewer", "same")}
    assert roles.plan(bucket) == 2
    still.s3.delete_object(Bucket=bucket, Key="fewer", VersionId=versions["fewer"][1])
    assert roles.act(bucket) == {
        ("fewer", "NOOP_RESOLVED", "newer versions gone"): 1,
        ("same", "DONE", ""): 1,
    }
    left = {("fewer", versions["fewer"][0]), ("fewer", versions["fewer"][2])}
    assert still.versions(bucket) == left | {("same", version) for version in versions["same"][1:]}


# --- races ----------------------------------------------------------------------------------------


@pytest.fixture
def busy(make_service: MakeService) -> World:
    """A service that deletes many objects one request after the other."""
    service = make_service(
        lifecycle__engine="listing",
        lifecycle__day_seconds=SHORT_DAY,
        lifecycle__interval_seconds=1,
        lifecycle__workers=1,
        lifecycle__deletes_per_second=PER_REQUEST,
        lifecycle__deletes_burst=1,
    )
    world = World(service, service.create_pool("busy"))
    world.bucket("many")
    put_all(world, "many", [f"k{number:04d}" for number in range(OBJECTS)])
    time.sleep(SHORT_DAY + 1)
    world.rules("many", EXPIRE)
    world.wait_until(lambda: len(deletions(world)) > 0, "the first deletions")
    return world


def deletions(world: World) -> list[float]:
    return [event["ts_ns"] / NANOSECOND for event in world.events("many", "delete")]


def queued(world: World) -> int:
    with world.service.api() as api:
        state = api.get("/api/v1/lifecycle").raise_for_status().json()
    return int(state["queued_actions"])


def test_after_a_rule_was_taken_back_at_most_the_request_under_way_is_finished(busy: World) -> None:
    busy.s3.delete_bucket_lifecycle(Bucket="many")
    acknowledged = time.time()
    busy.wait_until(lambda: not queued(busy), "the end of all tasks")
    late = [moment for moment in deletions(busy) if moment > acknowledged]
    assert len(late) <= PER_REQUEST
    counted = Counter((record["outcome"], record["reason"]) for record in busy.audits("many"))
    assert set(counted) == {("DONE", ""), ("NOOP_RESOLVED", "rule changed")}
    assert counted["DONE", ""] == len(deletions(busy)) < OBJECTS / 2


def test_a_stop_holds_at_once_and_survives_a_restart(busy: World) -> None:
    with busy.service.api() as api:
        api.post("/api/v1/lifecycle/stop", json={}).raise_for_status()
    acknowledged = time.time()
    busy.wait_until(lambda: not queued(busy), "the end of all tasks")
    late = [moment for moment in deletions(busy) if moment > acknowledged]
    assert len(late) <= 2 * PER_REQUEST  # the request under way, and one whose worker looked a moment before the stop
    counted = Counter(record["outcome"] for record in busy.audits("many"))
    assert set(counted) == {"DONE", "STOPPED"} and counted["DONE"] == len(deletions(busy)) < OBJECTS / 2
    busy.service.end()
    busy.service.start()
    time.sleep(3)  # rounds come every second
    assert len(deletions(busy)) == counted["DONE"]
    with busy.service.api() as api:
        assert api.get("/api/v1/lifecycle").json()["stopped"] is True
        api.post("/api/v1/lifecycle/resume", json={}).raise_for_status()
    busy.s3 = busy.service.s3(busy.key)
    busy.wait_until(lambda: not busy.keys("many"), "what is due goes after all")


def test_tasks_left_when_lifecycle_was_switched_off_are_dropped_when_it_is_switched_on(busy: World) -> None:
    service = busy.service
    service.end()
    done = 0
    for enabled in (False, True):
        service.settings["lifecycle.enabled"] = enabled
        service.start()
        done = done or len(deletions(busy))
        if not enabled:
            service.end()
    busy.s3 = service.s3(busy.key)
    busy.wait_until(lambda: not busy.keys("many"), "what is due goes after all")
    counted = Counter((record["outcome"], record["reason"]) for record in busy.audits("many"))
    assert counted["STOPPED", "it was queued before lifecycle was stopped"] > OBJECTS / 2
    assert counted["DONE", ""] == OBJECTS > done
