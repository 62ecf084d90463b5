"""Explain and simulate say the same: what the next pass does, of whatever lies in a store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from lifecycle_place import LifecyclePlace
from memory_store import MemoryStore

from tidegate.core.errors import NotFound
from tidegate.core.lifecycle.rules import LIFECYCLE
from tidegate.core.lifecycle.rules_xml import parse_lifecycle
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import ListedUpload
from tidegate.core.records import Bucket
from tidegate.core.xml_writer import iso_time
from tidegate.lifecycle.queries.inspection import Inspector, KeyExplanationView
from tidegate.settings import LifecycleSettings

DAY = 86_400.0
KEYS = ("a", "a-b", "a/c", "b")
ACTIONS = (
    "<Expiration><Days>2</Days></Expiration>",
    "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
    "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>",
    "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
    "<NewerNoncurrentVersions>1</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
    "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
)
TAGGED = (
    "<Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter><Status>Enabled</Status>"
    "<Expiration><Days>1</Days></Expiration>"
)
# Backends of which one cannot remove delete markers of the null version.
BACKENDS = ("memory", "seaweedfs")

Action = tuple[str, str, str]


class Scene:
    def __init__(self, place: LifecyclePlace) -> None:
        self.place = place
        self.stores = {backend: place.pool(f"pool-{backend}", backend=backend) for backend in BACKENDS}
        self.buckets: dict[str, Bucket] = {
            backend: place.bucket(f"photos-{backend}", pool=f"pool-{backend}") for backend in BACKENDS
        }
        self.inspector = Inspector(place.tables, place.topics, LifecycleSettings(), place.open_stores)

    def fill(self, backend: str, state: Versioning) -> MemoryStore:
        """The store, empty again."""
        store = self.stores[backend]
        store.state, store.versions, store.uploads, store.tag_sets = state, {}, [], {}
        return store

    def explained(self, backend: str, rules: str, keys: Sequence[str]) -> list[KeyExplanationView]:
        bucket = self.buckets[backend]
        self.place.tables.put(LIFECYCLE + bucket.uid, parse_lifecycle(rules.encode()).to_json())
        found = []
        for key in keys:
            try:
                found.append(self.inspector.explain(bucket.name, key))
            except NotFound:
                continue
        return found

    def simulated(self, backend: str, rules: str) -> Counter[Action]:
        """What the first pass does."""
        view = self.inspector.simulate(self.buckets[backend].name, rules.encode(), days=30)
        return Counter({(line.rule_id, line.kind, line.action): line.count for line in view.at_once if not line.held})


@pytest.fixture
def scene(place: LifecyclePlace) -> Scene:
    return Scene(place)


def document(rules: Sequence[str]) -> str:
    body = "".join(f"<Rule><ID>r{number}</ID>{rule}</Rule>" for number, rule in enumerate(rules))
    return f"<LifecycleConfiguration>{body}</LifecycleConfiguration>"


def rule(inside: str, prefix: str = "") -> str:
    return f"<Filter><Prefix>{prefix}</Prefix></Filter><Status>Enabled</Status>{inside}"


def following(views: Sequence[KeyExplanationView]) -> Counter[Action]:
    """What explanations say that the next pass does."""
    return Counter(
        (verdict.rule_id, verdict.kind, verdict.action)
        for view in views
        for item in view.items
        for verdict in item.verdicts
        if verdict.is_next
    )


class Stored(NamedTuple):
    age_days: float
    is_marker: bool
    is_null: bool
    is_tagged: bool


class Case(NamedTuple):
    backend: str
    state: Versioning
    versions: dict[str, list[Stored]]
    uploads: list[tuple[str, float]]
    rules: list[str]


@st.composite
def cases(draw: Any) -> Case:
    state = draw(st.sampled_from(Versioning))
    ages = st.sampled_from([0.5, 1.5, 2.5, 3.5, 9.5])
    stored = st.builds(Stored, ages, st.booleans(), st.booleans(), st.booleans())
    versions = draw(st.dictionaries(st.sampled_from(KEYS), st.lists(stored, min_size=1, max_size=4)))
    uploads = draw(st.lists(st.tuples(st.sampled_from(KEYS), ages), max_size=4))
    plain = st.builds(rule, st.sampled_from(ACTIONS), st.sampled_from(["", "a", "a/", "b"]))
    rules = draw(st.lists(st.one_of(plain, plain, st.just(TAGGED)), min_size=1, max_size=4))
    return Case(draw(st.sampled_from(BACKENDS)), state, versions, uploads, rules)


def fill(scene: Scene, case: Case, now: float) -> None:
    store = scene.fill(case.backend, case.state)
    for key, versions in case.versions.items():
        for number, entry in enumerate(sorted(versions, reverse=True)):
            is_unversioned = case.state is Versioning.OFF
            made = store.put(
                key,
                now - entry.age_days * DAY,
                version_id="null" if entry.is_null or is_unversioned else f"{key}-{number}",
                is_marker=entry.is_marker and not is_unversioned,
            )
            if entry.is_tagged and not made.is_marker:
                # Where there is no versioning, nobody names versions.
                for version_id in (made.version_id, "") if is_unversioned else (made.version_id,):
                    store.tag_sets[key, version_id] = (("k", "v"),)
    store.uploads = [
        ListedUpload(key, f"u{number}", now - age * DAY, iso_time(now - age * DAY))
        for number, (key, age) in enumerate(case.uploads)
    ]


@given(case=cases())
@hypothesis_settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_explain_and_simulate_agree_about_whatever_is_stored(scene: Scene, case: Case) -> None:
    fill(scene, case, time.time())
    rules = document(case.rules)
    assert following(scene.explained(case.backend, rules, KEYS)) == scene.simulated(case.backend, rules)


@pytest.mark.parametrize("limit", [999, 1001, 2500])
def test_all_uploads_of_a_key_are_explained(scene: Scene, limit: int) -> None:
    store = scene.fill("memory", Versioning.OFF)
    old = time.time() - 9 * DAY
    store.uploads = [ListedUpload("a", f"u{number:05}", old, iso_time(old)) for number in range(limit)]
    store.uploads += [ListedUpload("a-b", "other", old, iso_time(old))]
    rules = document([rule(ACTIONS[-1])])
    (view,) = scene.explained("memory", rules, ["a"])
    assert len({item.upload_id for item in view.items}) == len(view.items) == limit
    action = ("r0", "AbortIncompleteMultipartUpload", "abortUpload")
    assert following([view]) == {action: limit}
    assert scene.simulated("memory", rules) == {action: limit + 1}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_null_marker_that_the_store_keeps_is_explained_as_such(scene: Scene, backend: str) -> None:
    store = scene.fill(backend, Versioning.SUSPENDED)
    store.put("a", time.time() - 9 * DAY, is_marker=True)
    rules = document([rule(ACTIONS[1])])
    (view,) = scene.explained(backend, rules, ["a"])
    (verdict,) = view.items[0].verdicts
    assert verdict.is_next is verdict.matches is (backend == "memory")
    assert ("cannot remove" in " ".join(verdict.obstacles)) is (backend == "seaweedfs")
    assert scene.simulated(backend, rules) == following([view])
