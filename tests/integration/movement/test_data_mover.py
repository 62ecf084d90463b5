"""The data mover copies from a pool behind the gateway to a second real store, and can be broken off anywhere."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event as Flag

import pytest
from deletion_place import metric
from mover_world import DELETION, PART_BYTES, MoverWorld, until
from msgspec.structs import replace
from running_service import PoolKey, RunningService
from second_store import SecondStore

from tidegate.adapters.s3_store import S3Store
from tidegate.core.copies import Copy
from tidegate.core.copy_tasks import DATA_MOVER_TOPIC, CopyResult
from tidegate.core.errors import NotFound, Unavailable
from tidegate.movement.copy_progress import CopyProgress
from tidegate.movement.move_lister import MoveLister
from tidegate.movement.move_records import MoveRecords
from tidegate.movement.move_results import MoveResults
from tidegate.movement.mover_topics import BACK_GROUP, MOVEMENT_RESULTS_TOPIC, PLACER_GROUP, mover_group
from tidegate.movement.moves import Moves
from tidegate.movement.pending_deletes import BelievedData
from tidegate.movement.placer import Placer
from tidegate.movement.source_reader import Stopped
from tidegate.ports import Store, StoredPart
from tidegate.workers.retry_policy import RetryPolicy

OWNER = "tidegate-"


@pytest.fixture
def world(
    service: RunningService,
    pool: PoolKey,
    second_store: SecondStore,
    tmp_path: Path,
    fresh_name: Callable[[str], str],
) -> Iterator[MoverWorld]:
    made = MoverWorld(service, pool, second_store, tmp_path, fresh_name("moved"))
    yield made
    made.close()


def refuse(*arguments: object, **options: object) -> str:
    raise AssertionError("data was stored")


def test_a_small_object_is_copied_whole_and_says_whose_it_is(world: MoverWorld) -> None:
    location = world.location("cold", prefix="p/")
    task = world.put("a b/ü:1", b"tide" * 1000, ContentType="text/x-tide")
    status = world.copier().copy(task, location)
    assert (status.result, status.etag, status.size) == (CopyResult.COPIED, task.etag, 4000)
    prefix, _, token = status.data_key.rpartition("/")
    assert prefix == f"p/{world.record.pool}/{world.record.uid}"
    assert len(token) == 32
    found = world.stored(status.data_key)
    assert found["Body"].read() == b"tide" * 1000
    assert found["ContentType"] == "text/x-tide"
    assert found["ETag"].strip('"') == status.data_etag
    assert found["Metadata"] == {
        OWNER + "application": "tidegate",
        OWNER + "component": "placement",
        OWNER + "pool": world.record.pool,
        OWNER + "bucket": world.bucket,
        OWNER + "bucket-uid": world.record.uid,
        OWNER + "key": "a%20b/%C3%BC%3A1",
        OWNER + "version": "null",
    }
    (copy,) = world.copies()
    assert copy.data_key == status.data_key
    assert world.task_entry(task) == copy.entry


def test_an_empty_object_is_copied_too(world: MoverWorld) -> None:
    status = world.copier().copy(world.put("empty", b""), world.location("cold"))
    assert status.result is CopyResult.COPIED
    assert world.stored(status.data_key)["Body"].read() == b""


def test_a_large_object_is_copied_in_parts_byte_for_byte(world: MoverWorld) -> None:
    data = random.Random(1).randbytes(2 * PART_BYTES + 12345)
    status = world.copier().copy(world.put("large", data), world.location("cold"))
    found = world.stored(status.data_key)
    assert hashlib.sha256(found["Body"].read()).digest() == hashlib.sha256(data).digest()
    assert found["ETag"].strip('"').endswith("-3")
    assert found["Metadata"][OWNER + "key"] == "large"


def test_a_copy_that_was_broken_off_goes_on_with_the_parts_that_are_there(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = world.location("cold")
    data = random.Random(2).randbytes(3 * PART_BYTES + 1)
    task, stop = world.put("large", data), Flag()
    sent: list[int] = []
    put_part = S3Store.put_part

    def counted(self: S3Store, bucket: str, key: str, upload_id: str, number: int, part: bytes) -> StoredPart:
        sent.append(number)
        if number == 2:
            stop.set()
        return put_part(self, bucket, key, upload_id, number, part)

    monkeypatch.setattr(S3Store, "put_part", counted)
    with pytest.raises(Stopped):
        world.copier(stop).copy(task, location)
    (begun,) = world.copies()
    assert begun.upload_id
    status = world.copier().copy(task, location)
    assert sent == [1, 2, 3, 4]
    assert status.data_key == begun.data_key
    assert world.stored(status.data_key)["Body"].read() == data
    assert begun.upload_id not in world.second.uploads()
    assert world.pending() == []


def test_an_upload_whose_id_was_never_kept_is_found_again(world: MoverWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    location, task = world.location("cold"), world.put("large", os.urandom(PART_BYTES + 1))

    def killed(copy: Copy) -> None:
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(world.progress, "update", killed)
        world.copier().copy(task, location)
    before = world.second.uploads()
    status = world.copier().copy(task, location)
    assert status.result is CopyResult.COPIED
    assert len(before - world.second.uploads()) == 1


def test_a_task_that_comes_again_after_its_copy_was_complete_copies_nothing(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    location, task = world.location("cold"), world.put("a", b"tide")
    large = world.put("large", os.urandom(PART_BYTES + 1))
    first = [world.copier().copy(each, location) for each in (task, large)]
    monkeypatch.setattr(S3Store, "put", refuse)
    monkeypatch.setattr(S3Store, "start_upload", refuse)
    assert [world.copier().copy(each, location) for each in (task, large)] == first


def test_a_copy_that_shows_another_etag_than_was_answered_is_deleted_and_made_anew(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    location, task = world.location("cold"), world.put("large", os.urandom(PART_BYTES + 1))
    complete = S3Store.complete_upload
    with monkeypatch.context() as patch, pytest.raises(Unavailable, match="instead of"):
        patch.setattr(S3Store, "complete_upload", lambda *given: complete(*given) + "0")
        world.copier().copy(task, location)
    assert world.copies() == []
    status = world.copier().copy(task, location)
    (released,) = world.pending()
    assert status.result is CopyResult.COPIED and released.data_key != status.data_key
    assert world.stored(released.data_key)["ContentLength"] == task.size


def test_what_was_replaced_meanwhile_is_not_copied_and_what_was_begun_is_deleted(world: MoverWorld) -> None:
    location, stop = world.location("cold"), Flag()
    task = world.put("large", os.urandom(2 * PART_BYTES))
    stop.set()
    with pytest.raises(Stopped):
        world.copier(stop).copy(task, location)
    world.put("large", b"another")
    status = world.copier().copy(task, location)
    assert (status.result, status.reason) == (CopyResult.CHANGED, "it was replaced")
    (pending,) = world.pending()
    assert (pending.location, pending.key, pending.version_id) == ("cold", "large", "null")
    assert pending.upload_id in world.second.uploads()
    assert pending.missing == ()
    assert world.copies() == []
    assert world.task_entry(task) is None


def test_a_copy_that_is_given_up_is_counted_and_believed_once_its_record_is_gone(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    believed = BelievedData()
    world.progress = CopyProgress(world.tables, world.topics, deletion_topic=DELETION, believed=believed)
    location, task = world.location("cold"), world.put("a", b"tide")
    status, before = world.copier().copy(task, location), metric("sent", data="location")

    def fail(topic: str, records: object) -> None:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patch, pytest.raises(Unavailable, match="not sent"):
        patch.setattr(world.topics, "append", fail)
        world.copier().give_up(task, "nobody wants it")
    assert [copy.data_key for copy in world.copies()] == [status.data_key] and world.pending() == []
    world.copier().give_up(task, "nobody wants it")
    (pending,) = world.pending()
    assert pending in believed and world.copies() == []
    assert metric("sent", data="location") == before + 1


def test_what_is_gone_or_encrypted_with_a_customers_key_is_told(world: MoverWorld) -> None:
    location = world.location("cold")
    gone = world.put("gone", b"x")
    world.s3.delete_object(Bucket=world.bucket, Key="gone")
    secret = world.put("secret", b"x" * 100, SSECustomerAlgorithm="AES256", SSECustomerKey=os.urandom(32))
    assert world.copier().copy(gone, location).result is CopyResult.GONE
    refused = world.copier().copy(secret, location)
    assert refused.result is CopyResult.REFUSED
    assert refused.reason
    assert world.copies() == []


def test_a_copy_to_a_location_that_is_gone_is_refused(world: MoverWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    location, task = world.location("cold"), world.put("a", b"x")

    def gone(name: str) -> Store:
        raise NotFound(f"there is no location {name!r}")

    monkeypatch.setattr(world.locations, "store", gone)
    status = world.copier().copy(task, location)
    assert (status.result, status.reason) == (CopyResult.REFUSED, "there is no location cold")
    assert world.copies() == []


def test_a_copy_without_the_source_s_checksum_is_never_completed(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source sends other bytes than its ETag says."""
    location = world.location("cold")
    small, large = world.put("small", b"tide"), world.put("large", os.urandom(PART_BYTES + 1))
    monkeypatch.setattr("tidegate.movement.source_reader.plain_md5", lambda headers: hashlib.md5(b"other").hexdigest())
    monkeypatch.setattr(S3Store, "put", refuse)
    monkeypatch.setattr(S3Store, "complete_upload", refuse)
    for task in (small, large):
        with pytest.raises(Unavailable, match="ETag"):
            world.copier().copy(task, location)


def test_movers_of_two_locations_copy_what_is_theirs_and_tell_it_once(world: MoverWorld) -> None:
    world.location("cold")
    world.location("frozen", prefix="f/")
    cold = [world.put(f"cold/{number}", os.urandom(100 + number)) for number in range(30)]
    frozen = [replace(world.put(f"frozen/{number}", b"x" * 50), location="frozen") for number in range(5)]
    by_class = replace(world.put("by-class", b"y"), location="", storage_class="FROZEN")
    nowhere = replace(world.put("nowhere", b"z"), location="", storage_class="ELSEWHERE")
    world.publish(*cold, *frozen, by_class, nowhere)
    movers = world.movers()
    movers.run_once()
    until(lambda: len(world.statuses()) >= 37)
    groups = [mover_group("cold"), mover_group("frozen"), BACK_GROUP]
    until(lambda: not any(world.topics.lag(DATA_MOVER_TOPIC, group) for group in groups))
    movers.close()
    results = {status.task.key: status for status in world.statuses()}
    assert len(world.statuses()) == len(results) == 37
    assert Counter(status.result for status in results.values()) == {CopyResult.COPIED: 36, CopyResult.REFUSED: 1}
    assert results["nowhere"].reason == "no location serves the storage class ELSEWHERE"
    assert Counter(copy.location for copy in world.copies()) == {"cold": 30, "frozen": 6}
    for number in range(30):
        data_key = results[f"cold/{number}"].data_key
        assert len(world.stored(data_key)["Body"].read()) == 100 + number


def test_a_location_that_is_added_later_is_served_without_a_restart(world: MoverWorld) -> None:
    movers = world.movers()
    movers.run_once()
    world.location("cold")
    world.publish(world.put("a", b"x"))
    movers.run_once()
    until(lambda: len(world.statuses()) == 1)
    world.locations.known.clear()
    movers.run_once()
    world.publish(world.put("b", b"x"))
    until(lambda: len(world.statuses()) == 2)
    movers.close()
    results = {status.task.key: status.result for status in world.statuses()}
    assert results == {"a": CopyResult.COPIED, "b": CopyResult.REFUSED}


def test_a_task_from_before_its_location_was_made_ends_although_the_location_is_there(world: MoverWorld) -> None:
    location = world.location("cold")
    _, store = world.locations.known["cold"]
    world.publish(world.put("a", b"x"))
    world.locations.known["cold"] = dataclasses.replace(location, created_at=time.time() + 60), store
    movers = world.movers()
    movers.run_once()
    until(lambda: len(world.statuses()) == 1, seconds=60)
    movers.close()
    (status,) = world.statuses()
    assert (status.result, status.reason) == (CopyResult.REFUSED, "its location was made after this was asked for")


def test_a_location_that_does_not_answer_is_tried_again_and_then_the_task_has_failed(
    world: MoverWorld, make_store: Callable[..., SecondStore]
) -> None:
    failing = make_store()
    world.second = failing
    world.location("cold")
    task = world.put("a", b"x")
    failing.stop()
    world.publish(task)
    movers = world.movers(delays=(0.1, 0.1))
    movers.run_once()
    until(lambda: len(world.statuses()) == 1)
    movers.close()
    (status,) = world.statuses()
    assert status.result is CopyResult.FAILED
    assert "does not answer" in status.reason
    assert len(world.pending()) == 1
    assert world.copies() == []


def only_lister(world: MoverWorld) -> MoveLister:
    """One that lists all moves from now on: the service, which has the same tables, has another."""
    lister = MoveLister(world.tables, world.topics, world.stores, stop=world.stop)
    until(lister._lease.try_acquire)
    return lister


def test_a_move_of_a_prefix_is_listed_copied_placed_and_counted(world: MoverWorld) -> None:
    location = world.location("cold")
    for number in range(25):
        world.put(f"in/{number:02}", os.urandom(number))
    world.put("out", b"x")
    moves = Moves(world.tables, world.locations.all)
    lister = only_lister(world)
    dry = moves.start(world.bucket, "in/", to="cold", dry_run=True)
    asked = moves.start(world.bucket, "in/", to="cold", dry_run=False)
    placer = Placer(world.tables, world.progress, world.stores)
    results = MoveResults(
        world.tables, world.topics, placer, retries=RetryPolicy(), lease_seconds=10.0, stop=world.stop
    )
    movers = world.movers()
    movers.run_once()
    seen = threading.Event()

    def watch(view: object) -> None:
        seen.set()
        lister.run_once()
        results.run_once(0.1)

    done = moves.wait(asked.id, watch)
    assert seen.is_set()
    assert (done.status, done.total, done.moved, done.failed, done.unchanged) == ("done", 25, 25, 0, 0)
    assert (moves.show(dry.id).status, moves.show(dry.id).total, moves.show(dry.id).moved) == ("done", 25, 0)
    assert {path.partition("?")[0] for path, _ in world.door.asked} == {
        f"/{world.bucket}/in/{number:02}" for number in range(25)
    }
    for _, body in world.door.asked:
        assert (body["location"], body["storage_class"]) == (location.name, "COLD")
    assert world.copies() == []
    assert world.pending() == []
    until(lambda: not world.topics.lag(MOVEMENT_RESULTS_TOPIC, PLACER_GROUP))
    movers.close()
    results.close()
    lister.close()
    assert MoveRecords(world.tables).under_way() == []


def test_what_the_gateway_refuses_to_place_is_a_failure_with_its_reason(world: MoverWorld) -> None:
    world.location("cold")
    world.put("a", b"x")
    world.door.outcome = "refused"
    moves = Moves(world.tables, world.locations.all)
    lister = only_lister(world)
    asked = moves.start(world.bucket, to="cold", dry_run=False)
    results = MoveResults(
        world.tables, world.topics, Placer(world.tables, world.progress, world.stores),
        retries=RetryPolicy(), lease_seconds=10.0, stop=world.stop,
    )  # fmt: skip
    movers = world.movers()
    movers.run_once()

    def watch(view: object) -> None:
        lister.run_once()
        results.run_once(0.1)

    done = moves.wait(asked.id, watch)
    movers.close()
    results.close()
    lister.close()
    assert (done.moved, done.failed) == (0, 1)
    assert done.reasons[0].startswith("a: ")
    assert [pending.key for pending in world.pending()] == ["a"]
