"""What lifecycle and purges delete for good comes back from the trash, until its grace is over."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from running_service import RunningService
from second_store import SecondStore
from undo_world import OBJECTS, UndoWorld, undo_settings

SECONDS = 1 / 86_400


@pytest.fixture(scope="module")
def world(second_store: SecondStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UndoWorld]:
    service = RunningService(tmp_path_factory.mktemp("undo") / "data", undo_settings(second_store))
    try:
        service.start()
        yield UndoWorld(service, second_store, service.create_pool("undo"))
    finally:
        service.end()


@pytest.fixture
def name(fresh_name: Callable[[str], str]) -> str:
    return fresh_name("undo")


def put_odd(world: UndoWorld, bucket: str, number: int) -> str:
    """An object with attributes of its own."""
    chance = random.Random(number)
    key = f"{number % 7}/{'/'.join(chance.choices(['ä', 'b c', '+', 'd%', '.x', '~'], k=2))}/{number}"
    world.s3.put_object(
        Bucket=bucket,
        Key=key,
        Body=chance.randbytes(chance.choice([0, 1, 1000, 40_000])),
        ContentType=chance.choice(["text/plain", "image/png"]),
        CacheControl=f"max-age={number}",
        Metadata={"number": str(number), "name": chance.choice(["a", "b c"])},
        Tagging=f"number={number}&kind=odd" if number % 3 else "",
    )
    return key


def test_a_wrong_rule_deletes_all_and_one_command_brings_it_back_but_for_what_was_rewritten(
    world: UndoWorld, name: str
) -> None:
    bucket = world.bucket(name)
    with ThreadPoolExecutor(8) as executor:
        keys = list(executor.map(lambda number: put_odd(world, bucket, number), range(OBJECTS)))
        before = dict(zip(keys, executor.map(lambda key: world.shown(bucket, key), keys), strict=True))
    world.expire_all(bucket)
    report = world.run_pass(bucket)
    assert report["status"] == "ok", report
    assert world.keys(bucket) == set()
    world.s3.delete_bucket_lifecycle(Bucket=bucket)
    rewritten = keys[::10]
    for key in rewritten:
        world.s3.put_object(Bucket=bucket, Key=key, Body=b"anew")
    expected = {"found": len(keys), "restored": len(keys) - len(rewritten), "kept": len(rewritten), "failed": 0}
    planned = world.undelete(bucket, "--pass", report["id"], "--dry-run")
    assert {field: planned[field] for field in expected} == expected
    assert world.keys(bucket) == set(rewritten)
    done = world.undelete(bucket, "--pass", report["id"])
    assert {field: done[field] for field in expected} == expected
    assert world.keys(bucket) == set(keys)
    with ThreadPoolExecutor(8) as executor:
        after = dict(zip(keys, executor.map(lambda key: world.shown(bucket, key), keys), strict=True))
    for key in keys:
        if key in rewritten:
            assert after[key]["Body"] == b"anew"
        else:
            assert after[key] == before[key]
    again = world.undelete(bucket)
    assert (again["restored"], again["kept"]) == (0, len(rewritten))


def test_all_versions_of_a_purged_key_come_back_under_their_ids_in_their_order(world: UndoWorld, name: str) -> None:
    bucket = world.bucket(name, "Enabled")
    ids = [world.s3.put_object(Bucket=bucket, Key="k", Body=b"v%d" % n)["VersionId"] for n in range(3)]
    world.s3.put_object(Bucket=bucket, Key="other", Body=b"x")
    before = [world.shown(bucket, "k", each) for each in ids]
    listed = world.history(bucket)
    done = world.service.cli("bucket", "purge", bucket, "--prefix", "k", "--confirm", bucket)
    assert (done["deleted"], done["failed"]) == (3, 0)
    assert [entry[0] for entry in world.history(bucket)] == ["other"]
    found = world.undelete(bucket, prefix="k")
    assert (found["restored"], found["kept"], found["failed"]) == (3, 0, 0)
    assert world.history(bucket) == listed
    assert [world.shown(bucket, "k", each) for each in ids] == before
    assert world.shown(bucket, "k")["Body"] == b"v2"
    assert world.trash(bucket) == []


def test_noncurrent_versions_that_a_rule_deleted_come_back_below_the_current_one(world: UndoWorld, name: str) -> None:
    bucket = world.bucket(name, "Enabled")
    ids = [world.s3.put_object(Bucket=bucket, Key="k", Body=b"v%d" % n)["VersionId"] for n in range(3)]
    before, listed = [world.shown(bucket, "k", each) for each in ids], world.history(bucket)
    world.expire_all(bucket, NoncurrentVersionExpiration={"NoncurrentDays": 1})

    def are_gone() -> bool:
        world.run_pass(bucket)
        return len(world.history(bucket)) == 1

    world.wait_until(are_gone, "the noncurrent versions go")
    world.s3.delete_bucket_lifecycle(Bucket=bucket)
    found = world.undelete(bucket, "--since", "1h")
    assert (found["restored"], found["kept"], found["failed"]) == (2, 0, 0)
    assert world.history(bucket) == listed
    assert [world.shown(bucket, "k", each) for each in ids] == before
    assert world.shown(bucket, "k")["Body"] == b"v2"


def test_versions_come_back_without_the_marker_that_a_purge_removed(world: UndoWorld, name: str) -> None:
    bucket = world.bucket(name, "Enabled")
    first = world.s3.put_object(Bucket=bucket, Key="k", Body=b"one")["VersionId"]
    second = world.s3.put_object(Bucket=bucket, Key="k", Body=b"two")["VersionId"]
    world.s3.delete_object(Bucket=bucket, Key="k")
    world.service.cli("bucket", "purge", bucket, "--confirm", bucket)
    assert world.history(bucket) == []
    assert world.undelete(bucket)["restored"] == 2
    # The marker is not kept: nothing hides the newest version any more.
    assert world.history(bucket) == [("k", second, True, False), ("k", first, False, False)]
    world.s3.delete_object(Bucket=bucket, Key="k")
    assert not world.is_there(bucket, "k")
    world.s3.delete_object(Bucket=bucket, Key="k", VersionId=first)
    assert not world.is_there(bucket, "k", first) and world.is_there(bucket, "k", second)
    assert world.undelete(bucket)["found"] == 0


def test_the_null_version_that_a_delete_marker_replaced_comes_back_in_its_place(world: UndoWorld, name: str) -> None:
    bucket = world.bucket(name, "Enabled", "Suspended")
    for key in ("back", "rewritten"):
        world.s3.put_object(Bucket=bucket, Key=key, Body=key.encode(), Metadata={"of": key})
    before = world.shown(bucket, "back")
    world.expire_all(bucket)
    assert world.run_pass(bucket)["status"] == "ok"
    world.s3.delete_bucket_lifecycle(Bucket=bucket)
    assert {(entry[0], entry[3]) for entry in world.history(bucket)} == {("back", True), ("rewritten", True)}
    world.s3.put_object(Bucket=bucket, Key="rewritten", Body=b"anew")
    found = world.undelete(bucket)
    assert (found["restored"], found["kept"], found["failed"]) == (1, 1, 0)
    assert world.shown(bucket, "back") == before
    assert world.shown(bucket, "rewritten")["Body"] == b"anew"
    assert world.keys(bucket) == {"back", "rewritten"}


def test_objects_that_lie_in_a_location_come_back_with_their_storage_class(world: UndoWorld, name: str) -> None:
    bucket = world.bucket(name)
    parts = world.s3.create_multipart_upload(Bucket=bucket, Key="parts", Metadata={"a": "b"})["UploadId"]
    sent = [
        world.s3.upload_part(Bucket=bucket, Key="parts", UploadId=parts, PartNumber=number, Body=body)["ETag"]
        for number, body in enumerate((b"a" * (5 << 20), b"b"), 1)
    ]
    listed = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(sent, 1)]
    world.s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=parts, MultipartUpload={"Parts": listed})
    assert world.service.cli("move", f"s3://{bucket}/", "--to", "trash")["moved"] == 1
    before, part = world.shown(bucket, "parts"), world.s3.head_object(Bucket=bucket, Key="parts", PartNumber=1)
    assert before["StorageClass"] == "trash"
    world.service.cli("bucket", "purge", bucket, "--confirm", bucket)
    assert world.keys(bucket) == set()
    with world.service.api() as api:
        answer = api.post(f"/api/v1/buckets/{bucket}/undelete", json={}).raise_for_status().json()
    assert (answer["restored"], answer["kept"]) == (1, 0)
    assert world.shown(bucket, "parts") == before
    assert world.s3.head_object(Bucket=bucket, Key="parts", PartNumber=1)["ContentLength"] == part["ContentLength"]
    assert world.service.cli("move", f"s3://{bucket}/", "--back")["moved"] == 1
    assert world.shown(bucket, "parts") == before | {"StorageClass": None}


@pytest.mark.parametrize("versioning", ["", "Enabled"])
def test_what_was_brought_back_moves_into_the_pools_own_store(world: UndoWorld, name: str, versioning: str) -> None:
    bucket = world.bucket(name, *filter(None, [versioning]))
    for key in ("a", "b"):
        world.s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    before = {key: world.shown(bucket, key) for key in ("a", "b")}
    world.service.cli("bucket", "purge", bucket, "--confirm", bucket)
    kept = {record.placement.data_key for record in world.trash(bucket)}
    assert world.undelete(bucket)["restored"] == 2
    moved = world.service.cli("move", f"s3://{bucket}/", "--back")
    assert (moved["moved"], moved["unchanged"], moved["failed"]) == (2, 0, 0)
    again = world.service.cli("move", f"s3://{bucket}/", "--back")
    assert (again["moved"], again["unchanged"]) == (0, 2)
    assert {key: world.shown(bucket, key) for key in ("a", "b")} == before
    world.wait_until(lambda: not kept & world.store.keys(prefix="trash/"), "the data leaves the trash")


def test_what_was_brought_back_moves_to_where_it_lay_before(world: UndoWorld, name: str) -> None:
    bucket, store = world.bucket(name), world.store
    given = ["--endpoint", store.url, "--bucket", store.bucket, "--prefix", "warm/", "--access-key", store.access_key]
    world.service.cli("location", "create", "warm", *given, "--secret-key-file", str(store.secret_file))
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"warm")
    assert world.service.cli("move", f"s3://{bucket}/", "--to", "warm")["moved"] == 1
    before = world.shown(bucket, "k")
    world.service.cli("bucket", "purge", bucket, "--confirm", bucket)
    (record,) = world.trash(bucket)
    assert world.undelete(bucket)["restored"] == 1
    moved = world.service.cli("move", f"s3://{bucket}/", "--to", "warm")
    assert (moved["moved"], moved["unchanged"], moved["failed"]) == (1, 0, 0)
    world.wait_until(lambda: record.placement.data_key not in store.keys(prefix="trash/"), "the data leaves the trash")
    assert world.shown(bucket, "k") == before


def test_when_the_grace_is_over_the_data_goes_and_nothing_comes_back(world: UndoWorld, name: str) -> None:
    bucket = world.bucket(name)
    world.service.cli("deletion", "grace", "--bucket", bucket, str(4 * SECONDS))
    for number in range(5):
        world.s3.put_object(Bucket=bucket, Key=str(number), Body=b"x")
    assert world.service.cli("bucket", "purge", bucket, "--confirm", bucket)["deleted"] == 5
    kept = {record.placement.data_key for record in world.trash(bucket)}
    world.wait_until(lambda: not world.trash(bucket), "the records go")
    world.wait_until(lambda: not kept & world.store.keys(prefix="trash/"), "the data goes")
    found = world.undelete(bucket)
    assert (found["found"], found["restored"]) == (0, 0)
    assert world.keys(bucket) == set()


def test_what_was_brought_back_outlives_the_grace(world: UndoWorld, name: str) -> None:
    bucket = world.bucket(name)
    world.service.cli("deletion", "grace", "--bucket", bucket, str(20 * SECONDS))
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"precious")
    world.service.cli("bucket", "purge", bucket, "--confirm", bucket)
    (record,) = world.trash(bucket)
    assert world.undelete(bucket)["restored"] == 1

    def outcomes() -> list[str]:
        history = world.service.cli("deletion", "history", "--bucket", bucket)
        return [entry["outcome"] for entry in history if entry["component"] == "trash"]

    world.wait_until(lambda: outcomes() == ["in-use"], "the pending delete ends")
    assert world.shown(bucket, "k")["Body"] == b"precious"
    # Deleted again, this time by a client: its data goes like that of every moved object.
    world.s3.delete_object(Bucket=bucket, Key="k")
    world.wait_until(lambda: record.placement.data_key not in world.store.keys(prefix="trash/"), "the data goes")


def test_what_a_broken_off_attempt_has_claimed_is_not_claimed_any_more_where_the_object_was_written_again(
    world: UndoWorld, name: str
) -> None:
    bucket = world.bucket(name)
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    world.service.cli("bucket", "purge", bucket, "--confirm", bucket)
    (record,) = world.trash(bucket)
    with world.tables() as tables:
        tables.put(record.entry, replace(record, is_claimed=True).to_json())
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"anew")
    assert world.undelete(bucket, "--dry-run")["kept"] == 1
    assert world.trash(bucket) == [replace(record, is_claimed=True)]
    assert world.undelete(bucket)["kept"] == 1
    assert world.trash(bucket) == [record]
    world.s3.delete_object(Bucket=bucket, Key="k")
    assert world.undelete(bucket)["restored"] == 1
    assert world.shown(bucket, "k")["Body"] == b"old"


def test_after_the_end_of_the_grace_an_attempt_is_finished_only_where_it_has_brought_the_version_back(
    world: UndoWorld, name: str
) -> None:
    bucket = world.bucket(name)
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    world.service.cli("bucket", "purge", bucket, "--confirm", bucket)
    (record,) = world.trash(bucket)
    late = replace(record, until=time.time() - 1, is_claimed=True)
    with world.tables() as tables:
        tables.put(late.entry, late.to_json())
        found = world.undelete(bucket)
        assert (found["found"], found["gone"], found["restored"]) == (1, 1, 0)
        assert world.trash(bucket) == [late] and world.keys(bucket) == set()
        placement = late.restored("0" * 32, now_ns=time.time_ns())
        tables.put(placement.entry, placement.to_json())
    assert world.undelete(bucket)["restored"] == 1
    assert world.trash(bucket) == [] and world.shown(bucket, "k")["Body"] == b"x"


def test_a_pool_and_a_bucket_may_have_a_grace_of_their_own(world: UndoWorld, name: str) -> None:
    bucket, cli = world.bucket(name), world.service.cli
    cli("deletion", "grace", "--bucket", bucket, "0")
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    cli("bucket", "purge", bucket, "--confirm", bucket)
    assert world.trash(bucket) == []
    assert cli("deletion", "grace", "--bucket", bucket, "default")["buckets"].get(bucket) is None
    assert cli("deletion", "grace", "--pool", world.key.pool, "1.5")["pools"] == {world.key.pool: 1.5}
    with world.service.api() as api:
        answer = api.put(f"/api/v1/pools/{world.key.pool}/grace", json={"days": None}).raise_for_status().json()
    assert (answer["days"], answer["trash_location"], answer["pools"]) == (7, "trash", {})
    refused = world.service.run_cli("deletion", "grace", "--bucket", bucket, "soon")
    assert refused.returncode == 2 and "neither a number" in refused.stderr


def test_while_the_trash_does_not_answer_nothing_is_deleted(
    make_service: Callable[..., RunningService], make_store: Callable[..., SecondStore], name: str
) -> None:
    store = make_store()
    settings = undo_settings(store)
    service = make_service(**{key.replace(".", "__"): value for key, value in settings.items()})
    world = UndoWorld(service, store, service.create_pool("undo"))
    bucket = world.bucket(name)
    for number in range(3):
        world.s3.put_object(Bucket=bucket, Key=str(number), Body=b"x")
    store.stop()
    done = service.run_cli("bucket", "purge", bucket, "--confirm", bucket, "--json")
    assert done.returncode == 1 and "could not be kept in location trash" in done.stdout
    world.expire_all(bucket)
    with service.api() as api:
        api.post("/api/v1/passes", json={"bucket": bucket, "engine": "listing"}).raise_for_status()

        def is_retried() -> bool:
            lags = api.get("/metrics").text
            return 'result="retried"' in lags or 'outcome="RETRY_LATER"' in lags

        world.wait_until(is_retried, "the tasks are tried and put off")
    assert world.keys(bucket) == {"0", "1", "2"} and world.trash(bucket) == []
    store.start()
    world.wait_until(lambda: world.keys(bucket) == set(), "the trash answers again, and the objects go")
    world.s3.delete_bucket_lifecycle(Bucket=bucket)
    assert world.undelete(bucket)["restored"] == 3
    assert world.keys(bucket) == {"0", "1", "2"}


def test_without_a_trash_location_nothing_is_deleted_and_the_reason_is_told(
    service: RunningService, fresh_name: Callable[[str], str]
) -> None:
    world = UndoWorld(service, None, service.create_pool(fresh_name("undo")))  # type: ignore[arg-type]
    bucket = world.bucket(fresh_name("undo"))
    service.cli("deletion", "grace", "--bucket", bucket, "1")
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    done = service.run_cli("bucket", "purge", bucket, "--confirm", bucket, "--json")
    assert done.returncode == 1 and "set deletion.trash_location" in done.stdout
    assert world.keys(bucket) == {"k"}
