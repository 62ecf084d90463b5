"""The status of a transition's copy has the version placed, or the copy deleted; either way the transition ends."""

from __future__ import annotations

import time

import pytest
from lifecycle_place import DELETION, LifecyclePlace, rule_set
from memory_store import MemoryStore

from tidegate.core.copies import Copy, entry_of
from tidegate.core.copy_tasks import CopyResult, CopyStatus, CopyTask
from tidegate.core.errors import Unavailable
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import LIFECYCLE, ActionKind, Filter
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC, AuditRecord, ObjectTask, Outcome
from tidegate.core.pending_deletes import PendingDelete
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.core.replication.rules import REPLICATION, ReplicationRule, ReplicationRules
from tidegate.lifecycle.acting import object_processor
from tidegate.lifecycle.queries.control import LifecycleControl
from tidegate.movement.copy_progress import CopyProgress
from tidegate.pipeline.plan.handed_over import HandedOver
from tidegate.ports import Record
from tidegate.workers.retry_policy import RetryPolicy

MOVES = rule_set("<Filter/><Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>")
DATA_KEY = "pool/uid/0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_processor, "RETRIES", RetryPolicy(delays=(0.0,), tries=2))


class Scene:
    """A version whose copy lies in a location, as a data mover leaves it."""

    def __init__(self, place: LifecyclePlace) -> None:
        self.place = place
        self.store: MemoryStore = place.pool()
        self.bucket = place.bucket("photos", MOVES)
        listed = self.store.put("a", 1000.0, etag="e")
        self.planned = ObjectTask(
            effect=Effect.TRANSITION, owner="owner", bucket="photos", key="a", version_id="null",
            bucket_uid=self.bucket.uid, pass_id="pass", kind=ActionKind.TRANSITION_DAYS, rule_id="r0",
            action_id=MOVES.active()[0].id, due_ns=10, became_due_ns=10, last_modified=listed.modified,
            storage_class="GLACIER", etag="e", size=1,
        )  # fmt: skip
        self.task = CopyTask.of(self.planned)
        self.handed_over = HandedOver(place.tables)
        assert self.handed_over.begin(self.planned, now_ns=1)

    def copied(self) -> CopyStatus:
        copy = Copy.begun(
            self.task, version_id="null", pool="pool", location="cold", data_key=DATA_KEY, now=time.time(), etag="e",
            size=1, last_modified=self.planned.last_modified, part_bytes=1,
        )  # fmt: skip
        CopyProgress(self.place.tables, self.place.topics, deletion_topic=DELETION).begin(copy)
        return CopyStatus(
            task=self.task, result=CopyResult.COPIED, data_key=DATA_KEY, data_etag="d", etag="e", size=1,
            last_modified=self.planned.last_modified,
        )  # fmt: skip

    def settle(self, status: CopyStatus) -> AuditRecord:
        """Has the status processed; gives the one record that it leaves."""
        self.place.topics.append(OBJECT_TASKS_TOPIC, [Record("a", status.to_bytes())])
        processor = self.place.object_processor()
        while processor.run_once():
            pass
        processor.close()
        (record,) = self.place.audits()
        assert record.task == self.planned
        assert list(self.handed_over.under_way()) == []
        return record

    def is_referred_to(self) -> bool:
        return self.place.tables.get(entry_of("cold", DATA_KEY)) is not None

    def deleted(self) -> list[str]:
        return [PendingDelete.from_bytes(value).data_key for value in self.place.values(DELETION)]


@pytest.fixture
def scene(place: LifecyclePlace) -> Scene:
    return Scene(place)


def test_a_copy_is_placed_under_the_identity_that_was_copied_and_its_own_record_goes(scene: Scene) -> None:
    record = scene.settle(scene.copied())
    assert record.outcome is Outcome.DONE
    ((key, version_id, request),) = scene.store.placed
    assert (key, version_id) == ("a", "null")
    assert request == {
        "location": "cold", "data_key": DATA_KEY, "data_etag": "d", "storage_class": "GLACIER", "etag": "e", "size": 1,
        "last_modified": scene.planned.last_modified, "request_id": "pass",
    }  # fmt: skip
    assert not scene.is_referred_to()
    assert scene.deleted() == []


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("already", Outcome.DONE),
        ("changed", Outcome.NOOP_RESOLVED),
        ("gone", Outcome.NOOP_RESOLVED),
        ("refused", Outcome.BLOCKED),
    ],
)
def test_a_copy_that_the_gateway_does_not_take_goes_to_deletion(scene: Scene, answer: str, outcome: Outcome) -> None:
    scene.store.place_outcome = answer
    assert scene.settle(scene.copied()).outcome is outcome
    assert not scene.is_referred_to()
    assert scene.deleted() == ([] if answer == "already" else [DATA_KEY])


def test_a_copy_of_a_version_that_is_still_to_be_replicated_is_not_placed(scene: Scene) -> None:
    status = scene.copied()
    rules = ReplicationRules((ReplicationRule("r", 1, True, Filter(), "copies", ("near",)),))
    scene.place.tables.put(REPLICATION + scene.bucket.uid, rules.to_json())
    site = SiteState("near", "copies", Status.PENDING, 1.0)
    version = ReplicationRecord("pool", "photos", scene.bucket.uid, "a", "null", 1, 1000.0, sites=(site,))
    scene.place.tables.put(version.entry, version.to_json())
    record = scene.settle(status)
    assert (record.outcome, record.reason) == (Outcome.SKIPPED_REPLICATION, "its replication is pending")
    assert scene.store.placed == [] and scene.deleted() == [DATA_KEY]


def test_a_copy_whose_rule_was_taken_back_meanwhile_is_not_placed(scene: Scene) -> None:
    status = scene.copied()
    scene.place.tables.delete(LIFECYCLE + scene.bucket.uid)
    record = scene.settle(status)
    assert (record.outcome, record.reason) == (Outcome.NOOP_RESOLVED, "rule changed")
    assert scene.store.placed == []
    assert scene.deleted() == [DATA_KEY]
    assert not scene.is_referred_to()


def test_a_copy_is_not_placed_while_lifecycle_is_stopped(scene: Scene) -> None:
    status = scene.copied()
    LifecycleControl(scene.place.tables, scene.place.topics, scene.place.settings).stop("")
    assert scene.settle(status).outcome is Outcome.STOPPED
    assert scene.store.placed == []
    assert scene.deleted() == [DATA_KEY]


def test_a_gateway_that_answers_later_places_the_copy_after_all(scene: Scene) -> None:
    scene.store.trouble = [("after", Unavailable("no answer"))]
    assert scene.settle(scene.copied()).outcome is Outcome.DONE
    assert len(scene.store.placed) == 2
    assert scene.deleted() == []


def test_a_gateway_that_never_answers_ends_the_transition_for_this_pass_and_its_copy_goes(scene: Scene) -> None:
    scene.store.trouble = [("before", Unavailable("no answer"))] * 9
    record = scene.settle(scene.copied())
    assert (record.outcome, record.reason) == (Outcome.RETRY_LATER, "no answer")
    assert scene.deleted() == [DATA_KEY]
    assert not scene.is_referred_to()


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (CopyResult.CHANGED, Outcome.NOOP_RESOLVED),
        (CopyResult.GONE, Outcome.NOOP_RESOLVED),
        (CopyResult.REFUSED, Outcome.BLOCKED),
        (CopyResult.FAILED, Outcome.RETRY_LATER),
    ],
)
def test_what_could_not_be_copied_is_recorded_with_its_reason_at_once(
    scene: Scene, result: CopyResult, outcome: Outcome
) -> None:
    record = scene.settle(CopyStatus(task=scene.task, result=result, reason="why"))
    assert (record.outcome, record.reason) == (outcome, "why")
    assert scene.store.placed == []


def test_a_status_that_comes_again_after_its_copy_was_settled_places_nothing(scene: Scene) -> None:
    """The data may be gone by then: another move may have released it."""
    status = scene.copied()
    scene.settle(status)
    scene.place.topics.append(OBJECT_TASKS_TOPIC, [Record("a", status.to_bytes())])
    processor = scene.place.object_processor()
    while processor.run_once():
        pass
    assert len(scene.store.placed) == 1
    assert [record.outcome for record in scene.place.audits()] == [Outcome.DONE, Outcome.NOOP_RESOLVED]
