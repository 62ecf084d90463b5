"""Simulations: the counts are those of what then happens, and only what matters is asked of the store."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime

import pytest
from lifecycle_place import LifecyclePlace
from memory_store import MemoryStore

from tidegate.core.errors import NotFound
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import ListedUpload
from tidegate.core.s3errors import S3Error
from tidegate.core.xml_writer import iso_time
from tidegate.lifecycle.queries.inspection import Inspector
from tidegate.lifecycle.queries.simulation import SimulatedActions, SimulationView, passes_at
from tidegate.settings import LifecycleSettings

DAY = 86_400.0


@pytest.fixture
def store(place: LifecyclePlace) -> MemoryStore:
    made = place.pool()
    place.bucket("photos")
    return made


def simulate(place: LifecyclePlace, rules: str, *, days: int = 30, **settings: object) -> SimulationView:
    chosen = LifecycleSettings(**settings)  # type: ignore[arg-type]
    inspector = Inspector(place.tables, place.topics, chosen, place.open_stores)
    body = f"<LifecycleConfiguration>{rules}</LifecycleConfiguration>"
    return inspector.simulate("photos", body.encode(), days=days)


def rule(inside: str, *, name: str = "r", where: str = "") -> str:
    return f"<Rule><ID>{name}</ID><Filter>{where}</Filter><Status>Enabled</Status>{inside}</Rule>"


EXPIRE = "<Expiration><Days>3</Days></Expiration>"


def counts(actions: list[SimulatedActions]) -> dict[tuple[str, str], tuple[int, int, int]]:
    return {(line.rule_id, line.action): (line.count, line.bytes, line.freed_bytes) for line in actions}


def test_objects_and_bytes_are_counted_by_day(place: LifecyclePlace, store: MemoryStore) -> None:
    now = time.time()
    for number, age in enumerate((9, 9, 2, 1, 1)):
        store.put(f"k{number}", now - age * DAY, size=10)
    view = simulate(place, rule(EXPIRE))
    assert counts(view.at_once) == {("r", "deleteObject"): (2, 20, 20)}
    assert [counts(day.actions) for day in view.days] == [
        {("r", "deleteObject"): (1, 10, 10)},
        {("r", "deleteObject"): (2, 20, 20)},
    ]
    first = datetime.fromtimestamp((now // DAY + 2) * DAY, UTC)
    assert [day.begins_at for day in view.days] == [first, datetime.fromtimestamp((now // DAY + 3) * DAY, UTC)]
    assert (view.keys, view.seen.versions, view.seen.bytes) == (5, 5, 50)
    assert view.later.versions == view.never.versions == 0 and view.is_complete


def test_what_comes_later_and_what_never_comes_is_counted(place: LifecyclePlace, store: MemoryStore) -> None:
    store.put("tmp/new", time.time(), size=3)
    store.put("tmp/large", time.time(), size=500)
    small = rule(EXPIRE, where="<And><Prefix>t</Prefix><ObjectSizeLessThan>9</ObjectSizeLessThan></And>")
    view = simulate(place, small, days=2)
    assert (view.at_once, view.days) == ([], [])
    assert (view.later.versions, view.later.bytes, view.never.versions, view.never.bytes) == (1, 3, 1, 500)


def test_only_keys_that_a_rule_can_be_about_are_listed(place: LifecyclePlace, store: MemoryStore) -> None:
    for key in ("logs/a", "logs/b", "other"):
        store.put(key, 1.0)
    both = rule(EXPIRE, name="a", where="<Prefix>logs/a</Prefix>") + rule(EXPIRE, where="<Prefix>logs/x</Prefix>")
    view = simulate(place, both)
    assert (view.prefix, view.keys, view.never.versions) == ("logs/", 2, 1)


def test_versions_are_hidden_then_removed(place: LifecyclePlace, store: MemoryStore) -> None:
    store.state = Versioning.ENABLED
    store.put("k", 1.0, size=7)
    inside = "<Expiration><Days>1</Days></Expiration>"
    inside += "<NoncurrentVersionExpiration><NoncurrentDays>2</NoncurrentDays></NoncurrentVersionExpiration>"
    view = simulate(place, rule(inside))
    assert counts(view.at_once) == {("r", "expireObject"): (1, 7, 0)}
    (removal, cleanup) = view.days
    assert counts(removal.actions) == {("r", "deleteObject"): (1, 7, 7)}
    assert counts(cleanup.actions) == {("r", "removeDeleteMarker"): (1, 0, 0)}


def test_tags_are_fetched_only_where_the_rest_of_a_filter_matches(place: LifecyclePlace, store: MemoryStore) -> None:
    store.put("t/yes", 1.0)
    store.put("t/no", 1.0)
    store.put("t/large", 1.0, size=99)
    store.tag_sets["t/yes", "null"] = (("k", "v"),)
    tagged = "<And><Prefix>t/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag>"
    view = simulate(place, rule(EXPIRE, where=tagged + "<ObjectSizeLessThan>9</ObjectSizeLessThan></And>"))
    assert counts(view.at_once) == {("r", "deleteObject"): (1, 1, 1)}
    assert (view.never.versions, Counter(store.requests)["tags"]) == (2, 2)


def test_a_locked_version_is_shown_as_held(place: LifecyclePlace, store: MemoryStore) -> None:
    store.put("locked", 1.0)
    store.put("free", 1.0)
    store.locked.add(("locked", "null"))
    store.locked.add(("locked", ""))
    view = simulate(place, rule(EXPIRE))
    assert sorted((line.held, line.count, line.freed_bytes) for line in view.at_once) == [
        ("", 1, 1),
        ("object-lock", 1, 0),
    ]


def test_uploads_are_counted_where_a_rule_is_about_them(place: LifecyclePlace, store: MemoryStore) -> None:
    now = time.time()
    store.uploads = [
        ListedUpload(f"k{number}", f"u{number}", now - age * DAY, iso_time(now - age * DAY))
        for number, age in enumerate((9, 9, 1))
    ]
    store.put("k", 1.0)
    abort = (
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
    )
    view = simulate(place, rule(abort))
    assert counts(view.at_once) == {("r", "abortUpload"): (2, 0, 0)}
    assert (view.seen.uploads, view.seen.versions, "list" in store.requests) == (3, 0, False)


def test_all_pages_and_folders_are_looked_at(place: LifecyclePlace, store: MemoryStore) -> None:
    for number in range(2300):
        store.put(f"{number % 7}/{number}", 1.0)
    view = simulate(place, rule(EXPIRE))
    assert counts(view.at_once) == {("r", "deleteObject"): (2300, 2300, 2300)}


def test_it_can_be_ended_early_and_says_so(place: LifecyclePlace, store: MemoryStore) -> None:
    for number in range(2300):
        store.put(f"{number}", 1.0)
    inspector = Inspector(place.tables, place.topics, LifecycleSettings(), place.open_stores)
    body = f"<LifecycleConfiguration>{rule(EXPIRE)}</LifecycleConfiguration>".encode()
    view = inspector.simulate("photos", body, days=1, progress=lambda keys: keys < 10)
    assert not view.is_complete and 10 <= view.keys < 2300


def test_with_a_short_day_days_count_from_the_beginning(place: LifecyclePlace, store: MemoryStore) -> None:
    now = time.time()
    store.put("k", now)
    view = simulate(place, rule(EXPIRE), day_seconds=10, interval_seconds=2)
    (day,) = view.days
    assert 30 <= (day.begins_at - view.at).total_seconds() <= 40
    assert view.day_seconds == 10


def test_rules_that_put_would_refuse_are_refused_with_its_code(place: LifecyclePlace, store: MemoryStore) -> None:
    with pytest.raises(S3Error) as caught:
        simulate(place, rule(""))
    assert caught.value.code == "InvalidRequest"
    with pytest.raises(S3Error) as caught:
        simulate(place, rule("<Transition><Days>1</Days><StorageClass>COLD</StorageClass></Transition>"))
    assert caught.value.code == "MalformedXML"
    assert "tidegate location create" in caught.value.message
    assert store.requests == []


def test_a_missing_bucket_is_said_to_be_missing(place: LifecyclePlace) -> None:
    inspector = Inspector(place.tables, place.topics, LifecycleSettings(), place.open_stores)
    with pytest.raises(NotFound, match="there is no bucket photos"):
        inspector.simulate("photos", b"", days=1)


def test_passes_begin_by_the_clock_or_at_intervals() -> None:
    hour = 3600 * 10**9
    by_cron = passes_at(0, interval_seconds=0, cron="0 1 * * *")
    assert [by_cron(moment) for moment in (0, hour - 1, hour, hour + 1)] == [hour, hour, hour, 25 * hour]
    steady = passes_at(5, interval_seconds=2, cron="0 1 * * *")
    assert [steady(moment) for moment in (5, 6, 2 * 10**9 + 5, 2 * 10**9 + 6)] == [
        5,
        2 * 10**9 + 5,
        2 * 10**9 + 5,
        4 * 10**9 + 5,
    ]
