"""Lifecycle leaves a version alone until it has been replicated, and acts on it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set
from memory_store import MemoryStore

from tidegate.core.events import Pairs
from tidegate.core.lifecycle.rules import Filter
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.lifecycle.tasks import Outcome
from tidegate.core.records import Bucket
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.core.replication.replicas import COMPONENT_HEADER
from tidegate.core.replication.rules import REPLICATION, ReplicationRule, ReplicationRules
from tidegate.lifecycle.acting.replication_hold import ReplicationHold
from tidegate.lifecycle.queries.inspection import Inspector
from tidegate.ports import Store

OLD = 1000.0
NONCURRENT = (
    "<Filter/><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"
    "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"
)
PENDING = (Outcome.SKIPPED_REPLICATION, "its replication is pending")
FAILED = (Outcome.SKIPPED_REPLICATION, "its replication has failed")
UNNOTICED = (Outcome.SKIPPED_REPLICATION, "its replication has not begun")
DONE = (Outcome.DONE, "")


class Scene:
    """A bucket with versions, with lifecycle rules and with rules for one site."""

    def __init__(self, place: LifecyclePlace, rule: str = DAYS) -> None:
        self.place = place
        self.store: MemoryStore = place.pool()
        self.store.state = Versioning.ENABLED
        self.bucket: Bucket = place.bucket("photos", rule_set(rule))

    def rules(self, *, since: float = OLD - 1, prefix: str = "", tags: Pairs = (), markers: bool = False) -> None:
        rule = ReplicationRule("r", 1, True, Filter(prefix, tags), "copies", ("near",), markers, since=since)
        self.place.tables.put(REPLICATION + self.bucket.uid, ReplicationRules((rule,)).to_json())

    def record(self, key: str, version_id: str, *states: Status, is_replica: bool = False) -> None:
        sites = tuple(SiteState(f"s{number}", "copies", state, OLD) for number, state in enumerate(states))
        made = ReplicationRecord(
            "pool", "photos", self.bucket.uid, key, version_id, 1, OLD, sites=sites, is_replica=is_replica
        )
        self.place.tables.put(made.entry, made.to_json())

    def plan(self, pass_id: str = "pass") -> None:
        self.place.plan(now=OLD + 10_000, pass_id=pass_id)
        self.store.requests.clear()

    def outcomes(self, *, hold_failed: bool = False, pass_id: str = "pass") -> dict[str, tuple[Outcome, str]]:
        """Of what is planned and carried out now, by key."""
        self.plan(pass_id)
        processor = self.place.object_processor(hold_failed=hold_failed)
        while processor.run_once():
            pass
        processor.close()
        found = [record for record in self.place.audits() if record.task.pass_id == pass_id]
        return {record.task.key: (record.outcome, record.reason) for record in found}

    def holds(self, key: str, *, hold_failed: bool = False) -> list[str]:
        """What explaining the key says of each of its versions."""
        place = self.place
        inspector = Inspector(place.tables, place.topics, place.settings, place.open_stores, {}, hold_failed)
        return [verdict.hold for item in inspector.explain("photos", key).items for verdict in item.verdicts]


@pytest.fixture
def scene(place: LifecyclePlace) -> Scene:
    return Scene(place)


def test_a_pending_version_is_left_alone_until_it_has_arrived(scene: Scene) -> None:
    scene.rules()
    states = {
        "arrived": (Status.COMPLETED,),
        "half": (Status.COMPLETED, Status.PENDING),
        "pending": (Status.PENDING,),
    }
    versions = {key: scene.store.put(key, OLD) for key in states}
    for key, found in states.items():
        scene.record(key, versions[key].version_id, *found)
    assert scene.outcomes() == {"arrived": DONE, "half": PENDING, "pending": PENDING}
    assert [len(scene.store.versions[key]) for key in states] == [2, 1, 1]
    for key in ("half", "pending"):
        scene.record(key, versions[key].version_id, Status.COMPLETED, Status.COMPLETED)
    assert scene.outcomes(pass_id="later") == {"half": DONE, "pending": DONE}


@pytest.mark.parametrize(("hold_failed", "expected"), [(False, DONE), (True, FAILED)])
def test_failed_versions_are_held_by_the_setting(
    scene: Scene, hold_failed: bool, expected: tuple[Outcome, str]
) -> None:
    scene.rules()
    scene.record("k", scene.store.put("k", OLD).version_id, Status.FAILED)
    assert scene.outcomes(hold_failed=hold_failed) == {"k": expected}


def test_what_was_written_under_the_rules_waits_for_its_record(scene: Scene) -> None:
    scene.rules(since=OLD)
    scene.store.put("before", OLD - 2)
    scene.store.put("under", OLD + 1)
    assert scene.outcomes() == {"before": DONE, "under": UNNOTICED}


def test_what_no_rule_matches_waits_for_nothing(scene: Scene) -> None:
    scene.rules(prefix="other/")
    scene.store.put("k", OLD)
    assert scene.outcomes() == {"k": DONE}
    assert "head" not in scene.store.requests and "tags" not in scene.store.requests


def test_what_was_written_in_the_second_of_the_rules_is_older_where_only_the_second_is_known(
    place: LifecyclePlace,
) -> None:
    scene = Scene(place)
    scene.rules(since=OLD + 0.4, markers=True)
    rules = ReplicationRules.from_json(place.tables.get(REPLICATION + scene.bucket.uid) or "")
    hold = ReplicationHold(place.tables, cast(Store, scene.store), "photos", scene.bucket.uid, hold_failed=False)

    def why(created_ns: int) -> str:
        return hold.why_held(rules, "k", "v", is_marker=True, created_ns=created_ns)

    listed = int(OLD + 1) * 1_000_000_000 - 1
    assert why(listed) == ""
    assert why(listed + 1_000_000_000) != ""


def test_tags_are_asked_for_where_they_decide(scene: Scene) -> None:
    scene.rules(tags=(("copy", "yes"),))
    for key in ("tagged", "plain"):
        version = scene.store.put(key, OLD)
        scene.store.tag_sets[key, version.version_id] = (("copy", "yes"),) if key == "tagged" else ()
    assert scene.outcomes() == {"plain": DONE, "tagged": UNNOTICED}


def test_a_replica_is_not_waited_for(scene: Scene) -> None:
    scene.rules()
    scene.record("noticed", scene.store.put("noticed", OLD).version_id, is_replica=True)
    scene.store.put("new", OLD)
    scene.store.metadata["new"] = {COMPONENT_HEADER: "replica"}
    assert scene.outcomes() == {"noticed": DONE, "new": DONE}


def test_without_rules_nothing_is_held_but_what_is_on_its_way_still(scene: Scene) -> None:
    scene.store.put("new", OLD)
    assert scene.outcomes(pass_id="first") == {"new": DONE}
    scene.record("pending", scene.store.put("pending", OLD).version_id, Status.PENDING)
    scene.record("arrived", scene.store.put("arrived", OLD).version_id, Status.COMPLETED)
    scene.store.put("newer", OLD)
    assert scene.outcomes() == {"pending": PENDING, "arrived": DONE, "newer": DONE}


def test_noncurrent_versions_and_markers_have_records_of_their_own(place: LifecyclePlace) -> None:
    scene = Scene(place, NONCURRENT)
    scene.rules(markers=True)
    old, new = (scene.store.put("twice", OLD + number) for number in range(2))
    scene.record("twice", old.version_id, Status.PENDING)
    scene.record("twice", new.version_id, Status.COMPLETED)
    marker = scene.store.put("gone", OLD, is_marker=True)
    scene.record("gone", marker.version_id, Status.PENDING)
    assert scene.outcomes() == {"twice": PENDING, "gone": PENDING}
    for key, version in (("twice", old), ("gone", marker)):
        scene.record(key, version.version_id, Status.COMPLETED)
    assert scene.outcomes(pass_id="later") == {"twice": DONE, "gone": DONE}
    assert list(scene.store.versions) == ["twice"]


def test_a_rule_that_was_taken_back_is_the_reason_even_for_what_is_pending(scene: Scene) -> None:
    scene.rules()
    scene.record("k", scene.store.put("k", OLD).version_id, Status.PENDING)
    scene.plan()
    scene.place.tables.delete("lc:" + scene.bucket.uid)
    processor = scene.place.object_processor()
    while processor.run_once():
        pass
    processor.close()
    (record,) = scene.place.audits()
    assert (record.outcome, record.reason) == (Outcome.NOOP_RESOLVED, "rule changed")


def test_explaining_a_key_says_what_is_held(scene: Scene) -> None:
    scene.rules()
    version = scene.store.put("k", OLD)
    hold: Callable[..., list[str]] = scene.holds
    assert hold("k") == ["replication-pending"]
    for status, expected in ((Status.PENDING, "replication-pending"), (Status.COMPLETED, ""), (Status.FAILED, "")):
        scene.record("k", version.version_id, status)
        assert hold("k") == [expected]
    assert hold("k", hold_failed=True) == ["replication-pending"]
    scene.place.tables.delete(REPLICATION + scene.bucket.uid)
    assert (hold("k"), hold("k", hold_failed=True)) == ([""], ["replication-pending"])
