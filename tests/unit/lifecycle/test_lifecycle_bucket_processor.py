"""The bucket processor lists whole buckets in pages, judges keys whole, and publishes nothing twice."""

from __future__ import annotations

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set
from memory_store import MemoryStore

from tidegate.core.errors import Refused, Unavailable
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.lifecycle.tasks import BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC
from tidegate.core.listings import ListedUpload
from tidegate.core.xml_writer import iso_time
from tidegate.lifecycle.topics import backlog
from tidegate.ports import Record

NOW = 10_000.0
OLD, FRESH = NOW - 500, NOW - 50  # a day has 100 seconds
NONCURRENT = "<Filter/><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"
UPLOADS = (
    "<Filter/><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>"
    "</AbortIncompleteMultipartUpload>"
)
MARKERS = "<Filter/><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"


def run(place: LifecyclePlace) -> None:
    processor = place.bucket_processor()
    while processor.run_once():
        pass
    processor.close()


def planned(place: LifecyclePlace) -> set[tuple[str, str, str]]:
    return {(task.effect.value, task.key, task.version_id) for task in place.object_tasks()}


def test_a_large_bucket_is_listed_by_tasks_that_continue_each_other(place: LifecyclePlace) -> None:
    store = place.pool()
    bucket = place.bucket("photos", rule_set(DAYS))
    for number in range(23):
        store.put(f"old{number:02d}", OLD)
        store.put(f"new{number:02d}", FRESH)
    place.publish(bucket, now=NOW)
    run(place)
    assert planned(place) == {("deleteObject", f"old{number:02d}", "") for number in range(23)}
    assert len(place.object_tasks()) == 23
    markers = [task.key_marker for task in place.bucket_tasks()]
    assert len(markers) > 8 and markers.count("") == 1
    assert backlog(place.topics)[0] == 0


def test_a_task_carries_the_identity_that_was_judged(place: LifecyclePlace) -> None:
    store = place.pool()
    bucket = place.bucket("photos", rule_set(DAYS))
    listed = store.put("a", OLD, size=77)
    place.publish(bucket, now=NOW)
    run(place)
    (task,) = place.object_tasks()
    assert (task.etag, task.size, task.last_modified) == (listed.etag, 77, listed.modified)
    assert (task.bucket, task.bucket_uid, task.pass_id, task.rule_id) == ("photos", bucket.uid, "pass", "r0")
    assert task.due_ns == task.created_ns + 100_000_000_000 <= NOW * 1e9


def test_a_key_whose_versions_straddle_pages_is_judged_whole(place: LifecyclePlace) -> None:
    store = place.pool()
    store.state = Versioning.ENABLED
    newer = NONCURRENT.replace(
        "</NoncurrentDays>", "</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions>"
    )
    bucket = place.bucket("photos", rule_set(newer, MARKERS))
    for key, count in (("a", 4), ("b", 13), ("c", 3), ("covered", 6)):
        for number in range(count):
            store.put(key, OLD + number)
    store.put("covered", OLD + 50, is_marker=True)
    place.publish(bucket, now=NOW)
    expected = {
        ("deleteObject", key, version.version_id)
        for key, versions in store.versions.items()
        for version in versions[3:]
    }
    run(place)
    assert planned(place) == expected
    assert len(place.object_tasks()) == len(expected)


def test_tags_are_asked_for_only_where_a_rule_depends_on_them(place: LifecyclePlace) -> None:
    store = place.pool()
    tagged = "<Filter><And><Prefix>t/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>"
    bucket = place.bucket("photos", rule_set(f"{tagged}<Expiration><Days>1</Days></Expiration>"))
    for key in ("t/match", "t/other", "t/none", "u/match"):
        store.put(key, OLD)
    store.put("t/fresh", FRESH)
    store.tag_sets = {("t/match", "null"): (("k", "v"), ("a", "b")), ("t/other", "null"): (("k", "w"),),
                      ("u/match", "null"): (("k", "v"),)}  # fmt: skip
    place.publish(bucket, now=NOW)
    run(place)
    assert planned(place) == {("deleteObject", "t/match", "")}
    assert store.requests.count("tags") == 3


def test_locked_versions_are_not_published(place: LifecyclePlace) -> None:
    store = place.pool()
    store.state = Versioning.ENABLED
    bucket = place.bucket("photos", rule_set(NONCURRENT))
    versions = [store.put("k", OLD + number) for number in range(3)]
    store.locked = {("k", versions[0].version_id)}
    place.publish(bucket, now=NOW)
    run(place)
    assert planned(place) == {("deleteObject", "k", versions[1].version_id)}


def test_open_uploads_are_listed_in_pages_of_their_own(place: LifecyclePlace) -> None:
    store = place.pool()
    bucket = place.bucket("photos", rule_set(UPLOADS))
    store.put("object", OLD)
    store.uploads = [ListedUpload(f"k{n % 3}", f"u{n:02d}", OLD, iso_time(OLD)) for n in range(12)]
    store.uploads.append(ListedUpload("k1", "fresh", FRESH, iso_time(FRESH)))
    place.publish(bucket, now=NOW)
    run(place)
    tasks = place.object_tasks()
    assert sorted(task.upload_id for task in tasks) == [f"u{n:02d}" for n in range(12)]
    assert {task.effect for task in tasks} == {Effect.ABORT_UPLOAD}
    assert "list" not in store.requests


def test_only_what_some_rule_can_match_is_listed(place: LifecyclePlace) -> None:
    store = place.pool()
    rules = [f"<Filter><Prefix>{prefix}</Prefix></Filter><Expiration><Days>1</Days></Expiration>"
             for prefix in ("logs/2025/", "logs/2026/")]  # fmt: skip
    bucket = place.bucket("photos", rule_set(*rules))
    for number in range(50):
        store.put(f"data/{number}", OLD)
    store.put("logs/2025/a", OLD)
    store.put("logs/2024/a", OLD)
    place.publish(bucket, now=NOW)
    run(place)
    assert planned(place) == {("deleteObject", "logs/2025/a", "")}
    assert store.requests.count("list") == 1


@pytest.mark.parametrize(("backend", "removed"), [("seaweedfs", False), ("memory", True)])
def test_null_markers_are_removed_where_the_store_can(place: LifecyclePlace, backend: str, removed: bool) -> None:
    store = place.pool(backend=backend)
    store.state = Versioning.SUSPENDED
    bucket = place.bucket("photos", rule_set(MARKERS))
    store.put("k", OLD, is_marker=True)
    place.publish(bucket, now=NOW)
    run(place)
    assert planned(place) == ({("removeDeleteMarker", "k", "null")} if removed else set())


def test_a_bucket_that_is_another_by_now_is_left_alone(place: LifecyclePlace) -> None:
    store = place.pool()
    bucket = place.bucket("photos", rule_set(DAYS))
    store.put("a", OLD)
    place.publish(bucket, now=NOW)
    place.registry.delete_bucket("photos")
    place.bucket("photos", rule_set(DAYS))
    run(place)
    assert (place.object_tasks(), store.requests) == ([], [])


def test_a_task_that_comes_again_publishes_only_what_is_missing(place: LifecyclePlace) -> None:
    store = place.pool()
    bucket = place.bucket("photos", rule_set(DAYS))
    for number in range(17):
        store.put(f"old{number:02d}", OLD)
    place.publish(bucket, now=NOW)
    _crash_at_every_append(place, store)
    run(place)
    keys = sorted(task.key for task in place.object_tasks())
    assert keys == [f"old{number:02d}" for number in range(17)]
    tasks = place.bucket_tasks()
    assert len(tasks) == len({task.to_bytes() for task in tasks})


def _crash_at_every_append(place: LifecyclePlace, store: MemoryStore) -> None:
    """Runs processors that are killed right after their next append, until everything is appended."""
    original = place.topics.append

    class Killed(BaseException):
        pass

    def append_and_die(topic: str, records: list[Record]) -> None:
        original(topic, records)
        if topic in (BUCKET_TASKS_TOPIC, OBJECT_TASKS_TOPIC):
            raise Killed

    place.topics.append = append_and_die  # type: ignore[method-assign, assignment]
    try:
        for _ in range(100):
            processor = place.bucket_processor()
            try:
                if not processor.run_once():
                    return
            except Killed:
                continue
            finally:
                processor.close()
        raise AssertionError("it never ends")
    finally:
        place.topics.append = original  # type: ignore[method-assign]


def test_a_store_that_does_not_answer_is_asked_again_later_and_others_go_on(
    place: LifecyclePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick, sound = place.pool("sick"), place.pool("sound")
    sound.put("a", OLD)
    place.publish(place.bucket("in-sick", rule_set(DAYS), pool="sick"), now=NOW)
    place.publish(place.bucket("in-sound", rule_set(DAYS), pool="sound"), now=NOW)

    def no_answer(bucket: str) -> Versioning:
        raise Unavailable("no answer")

    monkeypatch.setattr(sick, "versioning", no_answer)
    run(place)
    assert planned(place) == {("deleteObject", "a", "")}
    assert backlog(place.topics) == (1, 1)


def test_a_store_that_refuses_is_left_to_the_next_pass(place: LifecyclePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.pool()

    def refuse(bucket: str) -> Versioning:
        raise Refused("AccessDenied")

    monkeypatch.setattr(store, "versioning", refuse)
    place.publish(place.bucket("photos", rule_set(DAYS)), now=NOW)
    run(place)
    assert backlog(place.topics) == (0, 0)


def test_a_message_that_is_no_task_becomes_a_dead_letter(place: LifecyclePlace) -> None:
    place.topics.append(BUCKET_TASKS_TOPIC, [Record("k", b"{}")])
    run(place)
    assert len(place.values(f"{BUCKET_TASKS_TOPIC}.dead-letters")) == 1
