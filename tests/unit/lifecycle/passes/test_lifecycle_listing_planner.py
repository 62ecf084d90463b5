"""The listing planner lists whole buckets in pages, judges keys whole, and writes the plan that Spark would write."""

from __future__ import annotations

from typing import Any

import pytest
from lifecycle_place import DAYS, SECOND, LifecyclePlace, rule_set
from pyspark.sql.pandas.types import to_arrow_schema
from stored_locations import store_location

from tidegate.core.errors import Refused, TidegateError, Unavailable
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.cursors import LISTED_LATE_NS
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import ListedUpload, VersionPage
from tidegate.core.shards import SHARDS
from tidegate.core.xml_writer import iso_time
from tidegate.lifecycle.passes.pass_watch import CutShort
from tidegate.lifecycle.passes.plan_files import PlanFiles
from tidegate.lifecycle.passes.plan_rows import PLAN_ROWS
from tidegate.pipeline.plan.evaluate import PLAN_SCHEMA
from tidegate.workers.retry_policy import RetryPolicy

NOW = 10_000.0
OLD, FRESH = NOW - 500, NOW - 50  # a day has 100 seconds
NONCURRENT = "<Filter/><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"
UPLOADS = (
    "<Filter/><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>"
    "</AbortIncompleteMultipartUpload>"
)
MARKERS = "<Filter/><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"


def planned(place: LifecyclePlace) -> set[tuple[str, str, str]]:
    return {(task.effect.value, task.key, task.version_id) for task in place.object_tasks()}


def test_a_large_bucket_is_listed_page_by_page(place: LifecyclePlace) -> None:
    store = place.pool()
    place.bucket("photos", rule_set(DAYS))
    for number in range(23):
        store.put(f"old{number:02d}", OLD)
        store.put(f"new{number:02d}", FRESH)
    plan = place.plan(now=NOW)["photos"].plan
    assert planned(place) == {("deleteObject", f"old{number:02d}", "") for number in range(23)}
    assert len(place.object_tasks()) == 23
    assert store.requests.count("list") > 8
    assert (plan.planned, plan.bytes, plan.problem) == ({"ExpirationDays": 23}, 23, "")


def test_a_task_carries_the_identity_that_was_judged(place: LifecyclePlace) -> None:
    store = place.pool()
    bucket = place.bucket("photos", rule_set(DAYS))
    listed = store.put("a", OLD, size=77)
    place.plan(now=NOW)
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
    place.bucket("photos", rule_set(newer, MARKERS))
    for key, count in (("a", 4), ("b", 13), ("c", 3), ("covered", 6)):
        for number in range(count):
            store.put(key, OLD + number)
    store.put("covered", OLD + 50, is_marker=True)
    expected = {
        ("deleteObject", key, version.version_id)
        for key, versions in store.versions.items()
        for version in versions[3:]
    }
    place.plan(now=NOW)
    assert planned(place) == expected
    assert len(place.object_tasks()) == len(expected)


def test_tags_are_asked_for_only_where_a_rule_depends_on_them(place: LifecyclePlace) -> None:
    store = place.pool()
    tagged = "<Filter><And><Prefix>t/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>"
    place.bucket("photos", rule_set(f"{tagged}<Expiration><Days>1</Days></Expiration>"))
    for key in ("t/match", "t/other", "t/none", "u/match"):
        store.put(key, OLD)
    store.put("t/fresh", FRESH)
    store.tag_sets = {("t/match", "null"): (("k", "v"), ("a", "b")), ("t/other", "null"): (("k", "w"),),
                      ("u/match", "null"): (("k", "v"),)}  # fmt: skip
    place.plan(now=NOW)
    assert planned(place) == {("deleteObject", "t/match", "")}
    assert store.requests.count("tags") == 3


def test_locked_versions_are_not_published(place: LifecyclePlace) -> None:
    store = place.pool()
    store.state = Versioning.ENABLED
    place.bucket("photos", rule_set(NONCURRENT))
    versions = [store.put("k", OLD + number) for number in range(3)]
    store.locked = {("k", versions[0].version_id)}
    place.plan(now=NOW)
    assert planned(place) == {("deleteObject", "k", versions[1].version_id)}


def test_open_uploads_are_listed_in_pages_of_their_own(place: LifecyclePlace) -> None:
    store = place.pool()
    place.bucket("photos", rule_set(UPLOADS))
    store.put("object", OLD)
    store.uploads = [ListedUpload(f"k{n % 3}", f"u{n:02d}", OLD, iso_time(OLD)) for n in range(12)]
    store.uploads.append(ListedUpload("k1", "fresh", FRESH, iso_time(FRESH)))
    place.plan(now=NOW)
    tasks = place.object_tasks()
    assert sorted(task.upload_id for task in tasks) == [f"u{n:02d}" for n in range(12)]
    assert {task.effect for task in tasks} == {Effect.ABORT_UPLOAD}
    assert "list" not in store.requests


def test_only_what_some_rule_can_match_is_listed(place: LifecyclePlace) -> None:
    store = place.pool()
    rules = [f"<Filter><Prefix>{prefix}</Prefix></Filter><Expiration><Days>1</Days></Expiration>"
             for prefix in ("logs/2025/", "logs/2026/")]  # fmt: skip
    place.bucket("photos", rule_set(*rules))
    for number in range(50):
        store.put(f"data/{number}", OLD)
    store.put("logs/2025/a", OLD)
    store.put("logs/2024/a", OLD)
    place.plan(now=NOW)
    assert planned(place) == {("deleteObject", "logs/2025/a", "")}
    assert store.requests.count("list") == 1


@pytest.mark.parametrize(("backend", "removed"), [("seaweedfs", False), ("memory", True)])
def test_null_markers_are_removed_where_the_store_can(place: LifecyclePlace, backend: str, removed: bool) -> None:
    store = place.pool(backend=backend)
    store.state = Versioning.SUSPENDED
    place.bucket("photos", rule_set(MARKERS))
    store.put("k", OLD, is_marker=True)
    place.plan(now=NOW)
    assert planned(place) == ({("removeDeleteMarker", "k", "null")} if removed else set())


def test_the_plan_has_the_columns_of_plans_on_spark() -> None:
    assert to_arrow_schema(PLAN_SCHEMA).equals(PLAN_ROWS)


def test_the_plan_shows_what_is_held_and_what_moves(place: LifecyclePlace) -> None:
    store = place.pool()
    store.state = Versioning.ENABLED
    moves = "<Filter/><Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>"
    place.bucket("photos", rule_set(NONCURRENT, moves))
    store_location(place.tables, "cold", "GLACIER")
    place.settings = place.settings.model_copy(update={"minimum_transition_bytes": 0})
    versions = [store.put("k", OLD + number) for number in range(3)]
    store.locked = {("k", versions[0].version_id)}
    plan = place.plan(now=NOW)["photos"].plan
    assert (plan.planned, plan.held) == ({"NoncurrentDays": 1, "TransitionDays": 1}, {"object-lock": 1})
    assert planned(place) == {("deleteObject", "k", versions[1].version_id)}
    shown = {(entry.action, entry.version_id, entry.held) for entry in PlanFiles(place.data, "pass").first(10)}
    assert shown == {
        ("transitionObject", versions[2].version_id, ""),
        ("deleteObject", versions[1].version_id, ""),
        ("deleteObject", versions[0].version_id, "object-lock"),
    }


def test_everything_is_walked_and_the_cursors_move_past_it(place: LifecyclePlace) -> None:
    place.pool()
    place.bucket("photos", rule_set(DAYS))
    bucket = place.plan(now=NOW)["photos"]
    assert (bucket.is_walked, bucket.is_replayed, bucket.recoveries) == (True, False, {})
    cursors = bucket.cursors_after()
    assert {cursor.frontier_ns for cursor in cursors.values()} == {int(NOW * SECOND) - LISTED_LATE_NS}


def test_a_store_that_does_not_answer_is_asked_again_and_goes_on_where_it_was(
    place: LifecyclePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.lifecycle.passes.listing_planner.RETRIES", RetryPolicy(delays=(0.0, 0.0), tries=3))
    store = place.pool()
    place.bucket("photos", rule_set(DAYS))
    for number in range(17):
        store.put(f"old{number:02d}", OLD)
    listed, calls = store.list_versions, iter(range(100))

    def now_and_then(*names: str, **where: Any) -> VersionPage:
        if next(calls) % 3:
            raise Unavailable("no answer")
        return listed(*names, **where)

    monkeypatch.setattr(store, "list_versions", now_and_then)
    assert place.plan(now=NOW)["photos"].plan.problem == ""
    assert sorted(task.key for task in place.object_tasks()) == [f"old{number:02d}" for number in range(17)]


@pytest.mark.parametrize("error", [Unavailable("no answer"), Refused("AccessDenied")])
def test_a_bucket_that_cannot_be_listed_is_a_problem_of_its_own_and_others_go_on(
    place: LifecyclePlace, monkeypatch: pytest.MonkeyPatch, error: TidegateError
) -> None:
    """What was judged before the trouble is done: each key was judged by all of its versions."""
    monkeypatch.setattr("tidegate.lifecycle.passes.listing_planner.RETRIES", RetryPolicy(delays=(0.0, 0.0), tries=3))
    sick, sound = place.pool("sick"), place.pool("sound")
    sound.put("a", OLD)
    for number in range(17):
        sick.put(f"b{number:02d}", OLD)
    place.bucket("in-sick", rule_set(DAYS), pool="sick")
    place.bucket("in-sound", rule_set(DAYS), pool="sound")
    listed = sick.list_versions

    def at_first(*names: str, key_marker: str, **where: Any) -> VersionPage:
        if key_marker:
            raise error
        return listed(*names, key_marker=key_marker, **where)

    monkeypatch.setattr(sick, "list_versions", at_first)
    buckets = place.plan(now=NOW)
    assert (buckets["in-sick"].plan.problem, buckets["in-sound"].plan.problem) == (str(error), "")
    assert {task.key for task in place.object_tasks()} == {"a", "b00", "b01", "b02", "b03"}
    assert buckets["in-sick"].cursors_after() == {} and len(buckets["in-sound"].cursors_after()) == SHARDS


def test_when_the_time_is_over_what_was_judged_is_published_and_the_cursors_stay(place: LifecyclePlace) -> None:
    store = place.pool()
    place.bucket("photos", rule_set(DAYS))
    store.put("a", OLD)
    bucket = place.plan(now=NOW, seconds=0)["photos"]
    assert "longer than" in bucket.plan.problem and bucket.cursors_after() == {}


def test_a_pass_that_is_stopped_while_it_lists_publishes_nothing_and_leaves_no_plan(place: LifecyclePlace) -> None:
    store = place.pool()
    place.bucket("photos", rule_set(DAYS))
    store.put("a", OLD)
    place.stop.set()
    with pytest.raises(CutShort):
        place.plan(now=NOW)
    assert place.object_tasks() == [] and PlanFiles(place.data, "pass").first(10) == []
