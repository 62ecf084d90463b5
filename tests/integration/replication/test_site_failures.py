"""Sites that are down, paused or refuse, versions that come late, and messages that come twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from move_ledger import wait_until
from replicated_world import SITES, ReplicatedWorld

from tidegate.core.replication.failed_keys import FailedKey
from tidegate.core.replication.messages import (
    REPLICATION_AUDIT_TOPIC,
    REPLICATION_TOPIC,
    STATUS_GROUP,
    STATUS_TOPIC,
    StatusUpdate,
)
from tidegate.core.replication.records import OPEN, Status
from tidegate.ports import Topics
from tidegate.replication.enqueueing import enqueue
from tidegate.replication.pauses import pause, resume
from tidegate.replication.topics import replicator_group
from tidegate.topic_pages import appended_since


@contextmanager
def down(replicated: ReplicatedWorld, site: str) -> Iterator[None]:
    replicated.stores[site].stop()
    try:
        yield
    finally:
        replicated.stores[site].start()


def retry(replicated: ReplicatedWorld, *failed: FailedKey) -> list[dict[str, object]]:
    wanted = [
        {"Bucket": each.bucket, "Key": each.key, "VersionId": each.version_id, "StorageClass": each.site}
        for each in failed
    ]
    with replicated.service.api() as api:
        found: list[dict[str, object]] = api.post("/_/crr/failed", json=wanted).raise_for_status().json()
        return found


def wait_until_idle(topics: Topics) -> None:
    groups = {STATUS_TOPIC: [STATUS_GROUP], REPLICATION_TOPIC: [replicator_group(site) for site in SITES]}

    def lags() -> dict[str, int]:
        return {group: topics.lag(topic, group) for topic, names in groups.items() for group in names}

    wait_until(lambda: not any(lags().values()), lambda: str(lags()))


def test_a_site_that_is_down_fails_its_versions_and_holds_up_no_other(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket()
    keys = ["a:b", "ü/k", "k"]
    with down(replicated, "one"):
        versions = {key: replicated.put(bucket, key, b"tide") for key in keys}
        for key, version in versions.items():
            replicated.wait_for(Status.COMPLETED, bucket, key, version, "two")
            replicated.wait_for(Status.FAILED, bucket, key, version, "one")
        failed = {FailedKey(bucket, key, version, "one") for key, version in versions.items()}
        wait_until(lambda: replicated.failures(bucket) == failed, lambda: str(replicated.failures(bucket)))
        record = replicated.record(bucket, "k", versions["k"])
        assert record is not None
        assert record.status is Status.FAILED
        state = record.at("one")
        assert state is not None
        assert "does not answer" in state.reason
    answered = retry(replicated, *failed)
    assert {(each["Key"], each["ReplicationStatus"]) for each in answered} == {(key, "PENDING") for key in keys}
    for key, version in versions.items():
        replicated.wait_for(Status.COMPLETED, bucket, key, version)
        assert replicated.history("one", bucket, key) == ["tide"]
    assert replicated.failures(bucket) == set()
    with replicated.topics() as topics:
        told = [
            StatusUpdate.from_bytes(message.value)
            for message in appended_since(topics, REPLICATION_AUDIT_TOPIC, [0] * 4)
        ]
    of_key = [(update.status, update.is_retry) for update in told if (update.bucket, update.key) == (bucket, "k")]
    assert of_key == [(Status.FAILED, False), (Status.PENDING, True)]


def test_a_site_that_comes_back_in_time_gets_all_versions_in_their_order(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("one",))
    pause(replicated.tables, "one", now=time.time())
    with down(replicated, "one"):
        versions = [replicated.put(bucket, "k", f"{number}".encode()) for number in range(5)]
        resume(replicated.tables, "one")
        time.sleep(0.5)  # so that some tries fail
        pause(replicated.tables, "one", now=time.time())
    resume(replicated.tables, "one")
    for version in versions:
        wait_until(
            lambda version=version: replicated.status(bucket, "k", version, "one") is not Status.PENDING,
            "it is pending",
        )
    failed = [
        FailedKey(bucket, "k", version, "one")
        for version in versions
        if replicated.status(bucket, "k", version, "one") is Status.FAILED
    ]
    if failed:
        retry(replicated, *failed)
    for version in versions:
        replicated.wait_for(Status.COMPLETED, bucket, "k", version, "one")
    replicated.wait_for_history("one", bucket, "k", [str(number) for number in range(5)])


def test_a_version_that_comes_late_gets_below_those_that_are_newer(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("two",))
    with down(replicated, "two"):
        first = replicated.put(bucket, "k", b"first")
        replicated.wait_for(Status.FAILED, bucket, "k", first, "two")
        wait_until(lambda: len(replicated.failures(bucket)) == 1, "it is not listed")
    second = replicated.put(bucket, "k", b"second")
    marker = replicated.delete(bucket, "k")
    third = replicated.put(bucket, "k", b"third")
    for version in (second, marker, third):
        replicated.wait_for(Status.COMPLETED, bucket, "k", version, "two")
    before = replicated.state(bucket, "k", third, "two")
    retry(replicated, FailedKey(bucket, "k", first, "two"))
    replicated.wait_for(Status.COMPLETED, bucket, "k", first, "two")
    replicated.wait_for_history("two", bucket, "k", ["first", "second", "deleted", "third"])
    for version in (first, second, marker, third):
        replicated.wait_for(Status.COMPLETED, bucket, "k", version, "two")
    after = replicated.state(bucket, "k", third, "two")
    assert before is not None
    assert after is not None
    current = replicated.at("two").head_object(Bucket=bucket, Key="k")["VersionId"]
    assert (after.replica_version_id, current != before.replica_version_id) == (current, True)


def test_what_a_site_refuses_fails_with_its_reason(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("one",))
    replicated.at("one").delete_bucket(Bucket=bucket)
    version = replicated.put(bucket, "k", b"data")
    replicated.wait_for(Status.FAILED, bucket, "k", version, "one")
    state = replicated.state(bucket, "k", version, "one")
    assert state is not None
    assert "NoSuchBucket" in state.reason
    assert replicated.tables.scan(f"{OPEN}one/{replicated.uid(bucket)}/") != []


def test_a_paused_site_gets_nothing_and_catches_up_when_it_is_resumed(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket()
    pause(replicated.tables, "one", now=time.time())
    time.sleep(1.5)
    version = replicated.put(bucket, "k", b"data")
    replicated.wait_for(Status.COMPLETED, bucket, "k", version, "two")
    time.sleep(1.0)
    assert replicated.status(bucket, "k", version, "one") is Status.PENDING
    assert replicated.history("one", bucket, "k") == []
    assert resume(replicated.tables, "one")
    replicated.wait_for(Status.COMPLETED, bucket, "k", version, "one")


def test_a_site_resumes_at_the_time_it_was_given(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("one",))
    now = time.time()
    pause(replicated.tables, "one", now=now, resume_at=now + 5)
    time.sleep(1.5)
    version = replicated.put(bucket, "k", b"data")
    replicated.wait_for(Status.COMPLETED, bucket, "k", version, "one")
    state = replicated.state(bucket, "k", version, "one")
    assert state is not None
    assert state.since >= now + 5
    assert not resume(replicated.tables, "one")


def test_tasks_that_come_twice_make_no_second_copy(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket()
    versions = [replicated.put(bucket, "k", body) for body in (b"first", b"second")]
    versions.append(replicated.delete(bucket, "k"))
    for version in versions:
        replicated.wait_for(Status.COMPLETED, bucket, "k", version)
    with replicated.topics() as topics:
        for _ in range(2):
            enqueue(replicated.tables, topics, replicated.records(bucket, "k"))
        enqueue(replicated.tables, topics, replicated.records(bucket, "k"), is_check=True)
        wait_until_idle(topics)
    for site in SITES:
        assert replicated.history(site, bucket, "k") == ["first", "second", "deleted"]


def test_a_copy_that_a_site_lost_is_made_again_in_its_place(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("one",))
    versions = [replicated.put(bucket, "k", body) for body in (b"first", b"second", b"third")]
    replicated.wait_for(Status.COMPLETED, bucket, "k", versions[-1], "one")
    state = replicated.state(bucket, "k", versions[1], "one")
    assert state is not None
    replicated.at("one").delete_object(Bucket=bucket, Key="k", VersionId=state.replica_version_id)
    with replicated.topics() as topics:
        enqueue(replicated.tables, topics, replicated.records(bucket, "k"), is_check=True)
    replicated.wait_for_history("one", bucket, "k", ["first", "second", "third"])
    for version in versions:
        replicated.wait_for(Status.COMPLETED, bucket, "k", version, "one")


def test_a_killed_process_goes_on_where_it_was_and_makes_no_second_copy(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket()
    versions = []
    for number in range(30):
        versions.append((f"k{number % 3}", replicated.put(bucket, f"k{number % 3}", f"{number}".encode())))
        if number % 10 == 9:
            for pid in replicated.service.pids_of("tidegate.movement.serve"):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.5)
    for key, version in versions:
        replicated.wait_for(Status.COMPLETED, bucket, key, version)
    for site in SITES:
        for remainder in range(3):
            wanted = [str(number) for number in range(remainder, 30, 3)]
            replicated.wait_for_history(site, bucket, f"k{remainder}", wanted)
