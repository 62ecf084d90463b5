"""Transitions against a second and a third real store, planned by listing and on Spark, and the expiry that follows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError
from lifecycle_world import DAY
from move_ledger import wait_until
from running_service import RunningService
from second_store import SecondStore
from transition_world import EXPIRE, SETTINGS, TransitionWorld, bucket_of

BY_LISTING = pytest.mark.parametrize("moved", ["listing"], indirect=True)


@pytest.fixture(scope="module", params=["listing", "spark"])
def moved(
    _clean_environment: None,
    tmp_path_factory: pytest.TempPathFactory,
    second_store: SecondStore,
    request: pytest.FixtureRequest,
) -> Iterator[TransitionWorld]:
    """When all that is due has moved."""
    directory = tmp_path_factory.mktemp("transitions")
    service = RunningService(directory / "data", SETTINGS | {"lifecycle.engine": request.param})
    frozen = SecondStore(directory / "frozen").start()
    made: TransitionWorld | None = None
    try:
        service.start()
        made = TransitionWorld.of(service, second_store, frozen)
        made.arrange()
        made.wait_until_moved()
        yield made
    finally:
        if made is not None:
            made.end()
        service.end()
        frozen.stop()


def test_versions_lie_where_their_rules_say_and_are_read_as_they_were_written(moved: TransitionWorld) -> None:
    for (bucket, key, version_id), data in moved.written.items():
        named = {} if bucket == bucket_of("") else {"VersionId": version_id}
        assert moved.world.s3.get_object(Bucket=bucket, Key=key, **named)["Body"].read() == data
    moved.assert_exact()
    assert len(moved.frozen.data_keys()) == 3
    assert len(moved.cold.data_keys()) == 3 * 4 + 2  # two noncurrent ones


def test_nothing_moves_before_its_days_are_over(moved: TransitionWorld) -> None:
    for bucket in moved.buckets():
        put = moved.world.put_times(bucket)
        events = moved.world.events(bucket, "moved")
        assert {event["key"] for event in events} >= {"days/1", "days/2", "colder/1", "date/1"}
        for event in events:
            if event["key"].startswith(("days/", "colder/")):
                days = 2 if event["storage_class"] == "FROZEN" else 1
                assert event["ts_ns"] / 1e9 - put[event["key"]] >= days * DAY, event


@BY_LISTING
def test_a_location_that_is_down_gives_503_for_its_objects_and_for_nothing_else(moved: TransitionWorld) -> None:
    s3, bucket = moved.world.service.s3(moved.world.key, retries=1), bucket_of("")
    moved.frozen.store.stop()
    try:
        with pytest.raises(ClientError) as error:
            s3.get_object(Bucket=bucket, Key="colder/1")
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert s3.head_object(Bucket=bucket, Key="colder/1")["StorageClass"] == "FROZEN"
        for key in ("days/1", "later/1"):
            assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == moved.written[bucket, key, "null"]
        assert {key for key, _ in moved.classes(bucket)} == moved.world.keys(bucket)
    finally:
        moved.frozen.store.start()
    data = moved.written[bucket, "colder/1", "null"]
    assert moved.world.s3.get_object(Bucket=bucket, Key="colder/1")["Body"].read() == data


@BY_LISTING
def test_a_rule_that_is_taken_back_while_the_data_is_copied_moves_nothing(moved: TransitionWorld) -> None:
    world, rule = moved.world, {"Transitions": [{"Days": 1, "StorageClass": "FROZEN"}]}
    world.bucket("taken-back", rule)
    world.put("taken-back", "a", "b", body=b"stays")
    world.sleep_until_due()
    moved.frozen.store.stop()
    try:
        with world.service.api() as api:
            api.post("/api/v1/passes", json={}).raise_for_status()
        # A copy that was begun has its record before any data is written.
        wait_until(lambda: len(moved.frozen.copies()) == 2, "copies under way")
        world.s3.delete_bucket_lifecycle(Bucket="taken-back")
    finally:
        moved.frozen.store.start()
    wait_until(lambda: not moved.frozen.copies(), "the end of the copies")
    assert set(moved.classes("taken-back").values()) == {"STANDARD"}
    assert [record for record in moved.frozen.placements() if record.bucket == "taken-back"] == []
    assert world.s3.get_object(Bucket="taken-back", Key="a")["Body"].read() == b"stays"
    moved.frozen.assert_exact([*moved.buckets(), "taken-back"])


def test_moved_objects_expire_by_their_original_times_and_leave_nothing_behind(moved: TransitionWorld) -> None:
    """This comes last: nothing is left."""
    world = moved.world
    for bucket in moved.buckets():
        world.rules(bucket, EXPIRE)
    world.run_pass()
    for bucket in moved.buckets():
        world.wait_until(lambda bucket=bucket: not world.keys(bucket), f"expiry in {bucket}")  # type: ignore[misc]
        world.wait_until(lambda bucket=bucket: not world.versions(bucket), f"expiry in {bucket}")  # type: ignore[misc]
    moved.assert_exact()
    assert moved.cold.data_keys() | moved.frozen.data_keys() == set()
    assert moved.cold.placements() == []
