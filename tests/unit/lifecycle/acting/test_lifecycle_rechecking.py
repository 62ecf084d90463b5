"""Between the plan and the deed rules are taken back and objects tagged anew: then nothing is deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set
from memory_store import MemoryStore

from tidegate.core.errors import Unavailable
from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.lifecycle.tasks import Outcome
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting import bucket_actions
from tidegate.lifecycle.topics import backlog

OLD = 1000.0
TAGGED = "<Filter><Tag><Key>a</Key><Value>1</Value></Tag></Filter><Expiration><Days>1</Days></Expiration>"
KEEPS_TWO = (
    "<Filter/><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
    "<NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>"
)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_actions, "_FIRST_PAUSE_SECONDS", 0.0)


@dataclass
class Scene:
    place: LifecyclePlace
    store: MemoryStore
    bucket: Bucket

    def rules(self, rules: RuleSet | None) -> None:
        key = LIFECYCLE + self.bucket.uid
        if rules is None:
            self.place.tables.delete(key)
        else:
            self.place.tables.put(key, rules.to_json())

    def plan(self) -> None:
        """Lists the bucket and publishes what is due; nothing is carried out yet."""
        self.place.plan(now=OLD + 10_000)
        self.store.requests.clear()

    def act(self) -> None:
        processor = self.place.object_processor()
        while processor.run_once():
            pass
        processor.close()

    def outcomes(self) -> set[tuple[Outcome, str]]:
        return {(record.outcome, record.reason) for record in self.place.audits()}

    def deletes(self) -> list[str]:
        return [request for request in self.store.requests if request.startswith("delete")]


@pytest.fixture
def make(place: LifecyclePlace) -> Callable[[str], Scene]:
    def made(rule: str) -> Scene:
        store = place.pool()
        return Scene(place, store, place.bucket("photos", rule_set(rule)))

    return made


def disabled(rule: str) -> RuleSet:
    text = rule_set(rule).to_json().replace('"enabled":true', '"enabled":false')
    return RuleSet.from_json(text)


@pytest.mark.parametrize(
    "later",
    [
        None,
        disabled(DAYS),
        rule_set(DAYS.replace("<Days>1<", "<Days>100000000<")),
        rule_set(DAYS.replace("<Filter/>", "<Filter><Prefix>other/</Prefix></Filter>")),
        rule_set(DAYS.replace("<Filter/>", "<Filter><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></Filter>")),
        rule_set(TAGGED),
    ],
    ids=["deleted", "disabled", "more days", "another prefix", "another size", "a tag"],
)
def test_what_the_rules_no_longer_ask_for_is_not_deleted(make: Callable[[str], Scene], later: RuleSet | None) -> None:
    scene = make(DAYS)
    for number in range(20):
        scene.store.put(f"k{number:02d}", OLD)
    scene.plan()
    scene.rules(later)
    scene.act()
    assert len(scene.store.versions) == 20 and scene.deletes() == []
    reason = "tags changed" if later == rule_set(TAGGED) else "rule changed"
    assert scene.outcomes() == {(Outcome.NOOP_RESOLVED, reason)}
    assert len(scene.place.audits()) == 20 and backlog(scene.place.topics) == 0


def test_without_tags_in_the_rule_the_store_is_asked_nothing(make: Callable[[str], Scene]) -> None:
    scene = make(DAYS)
    for number in range(20):
        scene.store.put(f"k{number:02d}", OLD)
    scene.plan()
    scene.act()
    assert scene.store.versions == {} and scene.store.requests == ["delete 20"]


def test_the_rules_are_read_before_each_request(make: Callable[[str], Scene]) -> None:
    """They are taken back while the first of several requests is under way: that one is finished, and no other sent."""
    scene = make(DAYS)
    for number in range(3000):
        scene.store.put(f"k{number:04d}", OLD)
    scene.place.settings = scene.place.settings.model_copy(update={"listing_limit": 1000})
    scene.plan()
    scene.store.before_delete = lambda: scene.rules(None)
    scene.act()
    sizes = [int(request.split()[1]) for request in scene.deletes()]
    # As many requests as there are threads may be under way at once.
    assert 1 <= len(sizes) <= 2
    assert len(scene.store.versions) == 3000 - sum(sizes)
    counted = Counter((record.outcome, record.reason) for record in scene.place.audits())
    assert counted == {
        (Outcome.DONE, ""): sum(sizes),
        (Outcome.NOOP_RESOLVED, "rule changed"): 3000 - sum(sizes),
    }


def test_an_attempt_that_is_repeated_reads_the_rules_again(make: Callable[[str], Scene]) -> None:
    scene = make(DAYS)
    scene.store.put("a", OLD)
    scene.plan()
    scene.store.trouble = [("before", Unavailable("no answer"))]
    requests = scene.store.requests

    class Taken(list[str]):
        def append(self, request: str) -> None:
            requests.append(request)
            scene.rules(None)

    scene.store.requests = Taken()
    scene.act()
    assert requests == ["delete 1"] and set(scene.store.versions) == {"a"}
    assert scene.outcomes() == {(Outcome.NOOP_RESOLVED, "rule changed")}


def test_what_a_lost_attempt_deleted_counts_as_done_though_the_rule_is_gone(make: Callable[[str], Scene]) -> None:
    scene = make(DAYS)
    scene.store.put("a", OLD)
    scene.plan()
    scene.store.trouble = [("after", Unavailable("the answer was lost"))]
    scene.store.before_delete = lambda: scene.rules(None)
    scene.act()
    assert scene.store.versions == {}
    assert scene.outcomes() == {(Outcome.DONE, "by an attempt whose answer was lost")}


def test_an_object_that_was_tagged_anew_stays(make: Callable[[str], Scene]) -> None:
    scene = make(TAGGED)
    for number in range(250):
        scene.store.put(f"k{number:03d}", OLD)
        scene.store.tag_sets[f"k{number:03d}", "null"] = (("a", "1"),)
    scene.plan()
    scene.store.tag_sets["k007", "null"] = (("a", "2"),)
    scene.store.tag_sets.pop(("k123", "null"))
    del scene.store.versions["k200"]
    scene.act()
    assert set(scene.store.versions) == {"k007", "k123"}
    found = {record.task.key: (record.outcome, record.reason) for record in scene.place.audits()}
    assert found["k007"] == found["k123"] == (Outcome.NOOP_RESOLVED, "tags changed")
    assert found["k200"] == (Outcome.NOOP_RESOLVED, "it is gone")
    assert Counter(outcome for outcome, _ in found.values()) == {Outcome.DONE: 247, Outcome.NOOP_RESOLVED: 3}
    # Tags are read just before the request that they are read for.
    assert max(int(request.split()[1]) for request in scene.deletes()) <= 50


def test_a_rule_taken_back_while_tags_are_read_deletes_nothing(
    make: Callable[[str], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = make(TAGGED)
    scene.store.put("a", OLD)
    scene.store.tag_sets["a", "null"] = (("a", "1"),)
    scene.plan()
    tags = scene.store.tags

    def slow(bucket: str, key: str, version_id: str = "") -> object:
        scene.rules(None)
        return tags(bucket, key, version_id)

    monkeypatch.setattr(scene.store, "tags", slow)
    scene.act()
    assert set(scene.store.versions) == {"a"} and scene.outcomes() == {(Outcome.NOOP_RESOLVED, "rule changed")}


def test_a_version_stays_when_newer_ones_went_meanwhile(make: Callable[[str], Scene]) -> None:
    scene = make(KEEPS_TWO)
    scene.store.state = Versioning.ENABLED
    made = {key: [scene.store.put(key, OLD + number) for number in range(4)] for key in ("fewer", "same")}
    scene.plan()
    doomed = {key: versions[0].version_id for key, versions in made.items()}
    assert {(task.key, task.version_id) for task in scene.place.object_tasks()} == set(doomed.items())
    scene.store.versions["fewer"] = [
        version for version in scene.store.versions["fewer"] if version != made["fewer"][2]._replace(is_latest=False)
    ]
    scene.act()
    assert [version.version_id for version in scene.store.versions["fewer"]][-1] == doomed["fewer"]
    assert len(scene.store.versions["same"]) == 3
    assert {record.task.key: record.reason for record in scene.place.audits()} == {
        "fewer": "newer versions gone",
        "same": "",
    }


def test_the_versions_of_a_key_are_listed_once_for_all_its_tasks(make: Callable[[str], Scene]) -> None:
    scene = make(KEEPS_TWO)
    scene.store.state = Versioning.ENABLED
    for number in range(20):
        scene.store.put("k", OLD + number)
    scene.plan()
    scene.act()
    assert scene.store.requests == ["list", "delete 17"]
    assert len(scene.store.versions["k"]) == 3
