"""The object processor carries tasks out conditionally, tells what became of each, and records each once."""

from __future__ import annotations

from collections import Counter

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set
from memory_store import MemoryStore
from msgspec.structs import replace

from tidegate.core.errors import Refused, Unavailable
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC, ObjectTask, Outcome
from tidegate.core.listings import ListedUpload, ListedVersion
from tidegate.core.records import Bucket
from tidegate.core.xml_writer import iso_time
from tidegate.lifecycle.acting import bucket_actions
from tidegate.lifecycle.topics import backlog
from tidegate.ports import Record
from tidegate.workers.retry_policy import RetryPolicy

OLD, LATER = 1000.0, 2000.0
SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_actions, "_FIRST_PAUSE_SECONDS", 0.0)


class Scene:
    def __init__(self, place: LifecyclePlace) -> None:
        self.place = place
        self.store: MemoryStore = place.pool()
        self.bucket: Bucket = place.bucket("photos", rule_set(DAYS))

    def task(self, listed: ListedVersion, effect: Effect = Effect.DELETE, **changes: object) -> ObjectTask:
        task = ObjectTask(
            effect=effect,
            owner="owner",
            bucket=self.bucket.name,
            key=listed.key,
            version_id="" if listed.version_id == "null" and effect is Effect.DELETE else listed.version_id,
            bucket_uid=self.bucket.uid,
            pass_id="pass",
            kind=ActionKind.EXPIRATION_DAYS,
            rule_id="r0",
            action_id="r0/ExpirationDays",
            due_ns=0,
            became_due_ns=0,
            last_modified=listed.modified,
            etag=listed.etag,
            size=None if listed.is_marker else listed.size,
        )
        return replace(task, **changes)  # type: ignore[arg-type]

    def publish(self, *tasks: ObjectTask) -> None:
        self.place.topics.append(OBJECT_TASKS_TOPIC, [Record(task.key, task.to_bytes()) for task in tasks])

    def run(self, per_second: float = 0) -> None:
        processor = self.place.object_processor(per_second)
        while processor.run_once():
            pass
        processor.close()

    def outcomes(self) -> dict[str, Outcome]:
        return {record.task.key: record.outcome for record in self.place.audits()}

    def reasons(self) -> list[str]:
        return [record.reason for record in self.place.audits()]


@pytest.fixture
def scene(place: LifecyclePlace) -> Scene:
    return Scene(place)


def test_objects_are_deleted_in_batches_and_each_leaves_a_record(scene: Scene) -> None:
    scene.publish(*(scene.task(scene.store.put(f"k{number:04d}", OLD)) for number in range(2300)))
    scene.run()
    assert scene.store.versions == {}
    records = scene.place.audits()
    assert Counter(record.outcome for record in records) == {Outcome.DONE: 2300}
    assert len({record.origin for record in records}) == 2300
    assert max(int(request.split()[1]) for request in scene.store.requests) <= 1000
    assert len(scene.store.requests) < 10
    assert backlog(scene.place.topics) == 0


def test_what_was_replaced_or_is_gone_is_left_alone(scene: Scene) -> None:
    replaced, same_bytes = scene.store.put("replaced", OLD), scene.store.put("same-bytes", OLD, etag="e")
    gone = scene.store.put("gone", OLD)
    scene.publish(scene.task(replaced), scene.task(same_bytes), scene.task(gone))
    scene.store.put("replaced", LATER)
    scene.store.put("same-bytes", LATER, etag="e")
    del scene.store.versions["gone"]
    scene.run()
    assert set(scene.outcomes().values()) == {Outcome.NOOP_RESOLVED}
    assert sorted(scene.reasons()) == ["it is gone", "it was replaced", "it was replaced"]
    assert set(scene.store.versions) == {"replaced", "same-bytes"}


def logged(scene: Scene, listed: ListedVersion, effect: Effect = Effect.DELETE) -> ObjectTask:
    """A task from the log: it knows when the version was written, and not the store's own time for it."""
    created_ns, due_ns = int(listed.last_modified * SECOND), int(LATER * SECOND)
    times = {"created_ns": created_ns, "due_ns": due_ns, "became_due_ns": due_ns}
    return scene.task(listed, effect, last_modified="", **times)


def test_tasks_from_the_log_spare_what_was_rewritten_with_the_same_bytes(scene: Scene) -> None:
    kept, doomed = scene.store.put("kept", OLD, etag="e"), scene.store.put("doomed", OLD, etag="e")
    scene.publish(logged(scene, kept), logged(scene, doomed))
    fresh = scene.store.put("kept", LATER, etag="e")
    scene.run()
    assert scene.outcomes() == {"kept": Outcome.NOOP_RESOLVED, "doomed": Outcome.DONE}
    assert scene.store.versions == {"kept": [fresh]}


@pytest.mark.parametrize("skew", [-450, 0, 450])
def test_clocks_that_differ_by_less_than_half_of_the_time_do_no_harm(scene: Scene, skew: float) -> None:
    """The store's clock is behind, or ahead, of the log's."""
    kept, doomed = scene.store.put("kept", OLD, etag="e"), scene.store.put("doomed", OLD, etag="e")
    scene.publish(logged(scene, kept), logged(scene, doomed))
    scene.store.put("doomed", OLD + skew, etag="e")
    scene.store.put("kept", LATER + skew, etag="e")
    scene.run()
    assert set(scene.store.versions) == {"kept"}


def test_an_object_that_was_due_from_its_first_moment_is_deleted(scene: Scene) -> None:
    """A rule's date may lie long before the object."""
    task = logged(scene, scene.store.put("late", LATER))
    scene.publish(replace(task, due_ns=1, became_due_ns=task.created_ns))
    scene.run()
    assert scene.outcomes() == {"late": Outcome.DONE}


def test_from_the_log_too_a_superseded_current_version_gets_no_marker(scene: Scene) -> None:
    scene.store.state = Versioning.ENABLED
    superseded = scene.store.put("k", OLD, etag="e")
    scene.publish(logged(scene, superseded, Effect.EXPIRE))
    scene.store.put("k", LATER, etag="e")
    scene.run()
    assert [version.is_marker for version in scene.store.versions["k"]] == [False, False]


def test_a_null_version_that_was_replaced_survives_and_a_named_one_is_taken_at_its_word(scene: Scene) -> None:
    scene.store.state = Versioning.ENABLED
    named = scene.store.put("named", OLD)
    scene.store.state = Versioning.SUSPENDED
    null = scene.store.put("null", OLD, etag="e")
    tasks = [replace(logged(scene, listed), version_id=listed.version_id) for listed in (named, null)]
    scene.publish(replace(tasks[0], etag="never seen"), tasks[1])
    fresh = scene.store.put("null", LATER, etag="e")
    scene.run()
    assert scene.store.versions == {"null": [fresh]}


def test_a_noncurrent_version_that_became_current_again_survives(scene: Scene) -> None:
    scene.store.state = Versioning.ENABLED
    promoted, demoted = scene.store.put("promoted", OLD), scene.store.put("demoted", OLD)
    for key in ("promoted", "demoted"):
        scene.store.put(key, LATER)
    scene.publish(*(scene.task(listed, kind=ActionKind.NONCURRENT_DAYS) for listed in (promoted, demoted)))
    scene.store.versions["promoted"] = [promoted]
    scene.run()
    assert scene.outcomes() == {"promoted": Outcome.NOOP_RESOLVED, "demoted": Outcome.DONE}
    assert "it is the current version again" in scene.reasons()
    assert scene.store.versions["promoted"] == [promoted]


@pytest.mark.parametrize("version_id", ["", "null"])
def test_a_noncurrent_marker_that_became_the_newest_again_survives(scene: Scene, version_id: str) -> None:
    """Also when an earlier attempt may have been made: a marker that is there was not removed by it."""
    scene.store.state = Versioning.ENABLED
    markers = []
    for key in ("newest", "covered"):
        scene.store.put(key, OLD)
        markers.append(scene.store.put(key, OLD + 1, version_id=version_id, is_marker=True))
        scene.store.put(key, LATER)
    scene.publish(
        *(scene.task(marker, Effect.REMOVE_MARKER, kind=ActionKind.NONCURRENT_DAYS) for marker in markers),
    )
    scene.store.versions["newest"] = [markers[0], scene.store.versions["newest"][2]]
    scene.store.trouble = [("before", Unavailable("broken pipe"))]
    scene.run()
    assert scene.outcomes() == {"newest": Outcome.NOOP_RESOLVED, "covered": Outcome.DONE}
    assert "it is the current version again" in scene.reasons()
    assert scene.store.versions["newest"][0] == markers[0]
    assert [version.is_marker for version in scene.store.versions["covered"]] == [False, False]


def test_a_listed_etag_that_the_store_does_not_mean_is_not_held_against_the_object(scene: Scene) -> None:
    listed = scene.store.put("in-parts", OLD)
    scene.publish(scene.task(listed, etag="as-listed"))
    scene.run()
    assert scene.outcomes() == {"in-parts": Outcome.DONE}
    assert scene.store.versions == {}


def test_an_expiring_current_version_that_was_superseded_gets_no_marker(scene: Scene) -> None:
    scene.store.state = Versioning.ENABLED
    kept, superseded = scene.store.put("kept", OLD), scene.store.put("superseded", OLD)
    scene.publish(scene.task(kept, Effect.EXPIRE), scene.task(superseded, Effect.EXPIRE))
    scene.store.put("superseded", LATER)
    scene.run()
    assert scene.outcomes() == {"kept": Outcome.DONE, "superseded": Outcome.NOOP_RESOLVED}
    assert [version.is_marker for version in scene.store.versions["kept"]] == [True, False]
    assert [version.is_marker for version in scene.store.versions["superseded"]] == [False, False]


def test_versions_markers_and_uploads_are_removed_by_their_ids(scene: Scene) -> None:
    scene.store.state = Versioning.ENABLED
    noncurrent = scene.store.put("k", OLD)
    current = scene.store.put("k", LATER)
    marker = scene.store.put("m", OLD, is_marker=True)
    scene.store.uploads = [ListedUpload("u", "u1", OLD, iso_time(OLD)), ListedUpload("u", "u2", OLD, iso_time(OLD))]
    abort = scene.task(current, Effect.ABORT_UPLOAD, key="u", upload_id="u1", version_id="")
    scene.publish(scene.task(noncurrent), scene.task(marker, Effect.REMOVE_MARKER), abort)
    scene.run()
    assert scene.store.versions == {"k": [current]}
    assert [upload.upload_id for upload in scene.store.uploads] == ["u2"]
    assert set(scene.outcomes().values()) == {Outcome.DONE}


def test_an_object_that_took_a_null_markers_place_survives(scene: Scene) -> None:
    scene.store.state = Versioning.SUSPENDED
    marker, other = scene.store.put("k", OLD, is_marker=True), scene.store.put("n", OLD, is_marker=True)
    scene.publish(scene.task(marker, Effect.REMOVE_MARKER), scene.task(other, Effect.REMOVE_MARKER))
    fresh = scene.store.put("k", LATER)
    scene.run()
    assert scene.outcomes() == {"k": Outcome.NOOP_RESOLVED, "n": Outcome.DONE}
    assert scene.store.versions == {"k": [fresh]}


def test_locked_versions_are_skipped(scene: Scene) -> None:
    scene.store.state = Versioning.ENABLED
    locked, free = scene.store.put("locked", OLD), scene.store.put("free", OLD)
    scene.store.locked = {("locked", locked.version_id)}
    scene.publish(scene.task(locked), scene.task(free))
    scene.run()
    assert scene.outcomes() == {"locked": Outcome.SKIPPED_OBJECT_LOCK, "free": Outcome.DONE}
    assert set(scene.store.versions) == {"locked"}


def test_what_the_store_refuses_is_blocked_and_the_rest_goes_on(scene: Scene) -> None:
    tasks = [scene.task(scene.store.put(key, OLD)) for key in ("refused", "fine")]
    scene.store.refused = {"refused": "AccessDenied"}
    scene.publish(*tasks)
    scene.run()
    assert scene.outcomes() == {"refused": Outcome.BLOCKED, "fine": Outcome.DONE}
    assert backlog(scene.place.topics) == 0


def test_a_bucket_in_which_everything_is_refused_blocks_only_itself(scene: Scene) -> None:
    other = scene.place.pool("other")
    bucket = scene.place.bucket("films", rule_set(DAYS), pool="other")
    scene.store.trouble = [("before", Refused("AccessDenied"))] * 9
    scene.publish(scene.task(scene.store.put("a", OLD)))
    scene.publish(replace(scene.task(other.put("b", OLD)), bucket="films", bucket_uid=bucket.uid))
    scene.run()
    assert scene.outcomes() == {"a": Outcome.BLOCKED, "b": Outcome.DONE}


@pytest.mark.parametrize("when", ["before", "after"])
def test_trouble_on_the_way_is_tried_again_at_once(scene: Scene, when: str) -> None:
    """Also when the answer was lost: what is gone then was our doing."""
    scene.store.trouble = [(when, Unavailable("broken pipe"))] * 2
    scene.publish(*(scene.task(scene.store.put(f"k{number}", OLD)) for number in range(5)))
    scene.run()
    assert set(scene.outcomes().values()) == {Outcome.DONE}
    assert scene.store.versions == {}


def test_what_is_gone_after_trouble_with_its_key_was_our_doing(scene: Scene) -> None:
    scene.publish(scene.task(scene.store.put("k", OLD)))
    scene.store.refused = {"k": "ServiceUnavailable"}

    def done_all_the_same() -> None:
        if len(scene.store.requests) > 1:
            scene.store.refused, scene.store.versions = {}, {}

    scene.store.before_delete = done_all_the_same
    scene.run()
    assert scene.outcomes() == {"k": Outcome.DONE}


def test_lasting_trouble_is_left_for_later_and_then_to_the_next_pass(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.lifecycle.acting.object_processor.RETRIES", RetryPolicy(delays=(0.0,), tries=3))
    monkeypatch.setattr("tidegate.lifecycle.acting.dispatcher._SICK_SECONDS", 0.0)
    scene.store.trouble = [("before", Unavailable("no answer"))] * 100
    scene.publish(scene.task(scene.store.put("a", OLD)))
    processor = scene.place.object_processor()
    assert processor.run_once() == 1
    assert (scene.place.audits(), backlog(scene.place.topics)) == ([], 1)
    assert [processor.run_once(), processor.run_once()] == [1, 1]
    assert scene.outcomes() == {"a": Outcome.RETRY_LATER}
    assert backlog(scene.place.topics) == 0
    assert scene.store.requests.count("delete 1") == 9


def test_keys_that_xml_cannot_hold_are_deleted_one_by_one(scene: Scene) -> None:
    keys = ["control\x01", "return\r", "newline\n", "emoji😀", "a&<>\"'"]
    scene.publish(*(scene.task(scene.store.put(key, OLD)) for key in keys))
    scene.run()
    assert scene.store.versions == {}
    assert sorted(scene.store.requests) == ["delete", "delete", "delete 3"]


def test_a_task_of_a_bucket_that_is_gone_resolves_itself(scene: Scene) -> None:
    scene.publish(scene.task(scene.store.put("a", OLD)))
    scene.place.registry.delete_bucket("photos")
    scene.place.bucket("photos", rule_set(DAYS))
    scene.run()
    assert scene.outcomes() == {"a": Outcome.NOOP_RESOLVED}
    assert set(scene.store.versions) == {"a"}


def test_two_tasks_for_one_object_act_once(scene: Scene) -> None:
    task = scene.task(scene.store.put("a", OLD))
    scene.publish(task, task)
    scene.run()
    assert Counter(record.outcome for record in scene.place.audits()) == {Outcome.DONE: 1, Outcome.NOOP_RESOLVED: 1}


def test_a_transition_without_a_copy_is_a_dead_letter_and_deletes_nothing(scene: Scene) -> None:
    listed = scene.store.put("a", OLD)
    scene.publish(scene.task(listed, Effect.TRANSITION, storage_class="GLACIER"))
    scene.run()
    assert scene.outcomes() == {}
    assert set(scene.store.versions) == {"a"}
    assert len(scene.place.values(f"{OBJECT_TASKS_TOPIC}.dead-letters")) == 1


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", ["before acting", "after acting", "after recording", "after acknowledging"])
def test_wherever_a_processor_is_killed_each_task_is_recorded_once_as_done(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    scene.publish(*(scene.task(scene.store.put(f"k{number}", OLD)) for number in range(9)))
    processor = scene.place.object_processor()

    def die() -> None:
        raise Killed

    def dying(method: object) -> object:
        def call(*arguments: object) -> object:
            method(*arguments)  # type: ignore[operator]
            raise Killed

        return call

    if moment == "before acting":
        monkeypatch.setattr(scene.store, "before_delete", die)
    elif moment == "after acting":
        monkeypatch.setattr(scene.store, "delete_many", dying(scene.store.delete_many))
    elif moment == "after recording":
        monkeypatch.setattr(processor._trail, "append", dying(processor._trail.append))
    else:
        redelivery = processor._worker._redelivery
        monkeypatch.setattr(redelivery, "end", dying(redelivery.end))
    with pytest.raises(Killed):
        processor.run_once()
    monkeypatch.undo()
    processor.close()
    scene.run()
    assert scene.store.versions == {}
    assert Counter((record.task.key, record.outcome) for record in scene.place.audits()) == {
        (f"k{number}", Outcome.DONE): 1 for number in range(9)
    }


def test_the_rate_limit_makes_the_batches_smaller(scene: Scene) -> None:
    scene.publish(*(scene.task(scene.store.put(f"k{number:02d}", OLD)) for number in range(60)))
    scene.run(per_second=40)
    assert scene.store.versions == {}
    assert max(int(request.split()[1]) for request in scene.store.requests) <= 40


def test_a_message_that_is_no_task_becomes_a_dead_letter(scene: Scene) -> None:
    scene.place.topics.append(OBJECT_TASKS_TOPIC, [Record("k", b"nonsense")])
    scene.publish(scene.task(scene.store.put("a", OLD)))
    scene.run()
    assert len(scene.place.values(f"{OBJECT_TASKS_TOPIC}.dead-letters")) == 1
    assert scene.outcomes() == {"a": Outcome.DONE}
