"""Records of moved versions: what listings show of them, and what becomes of them when their keys change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.core.listings import ListedVersion
from tidegate.core.placements import Placement, entries_of_key, entry_of, merged, of_version, settled


def record(version_id: str = "null", **fields: Any) -> Placement:
    known: dict[str, Any] = {
        "id": f"id-{version_id}",
        "pool": "pool",
        "bucket": "bucket",
        "bucket_uid": "uid",
        "key": "key",
        "version_id": version_id,
        "location": "cold",
        "data_key": f"data-{version_id}",
        "size": 5,
        "etag": "etag",
        "listed_etag": "etag",
        "modified": "2026-01-01T00:00:10Z",
        "last_modified": 10.0,
        "storage_class": "COLD",
        "moved_ns": 1,
    }
    return Placement(**{**known, **fields})


def stored(version_id: str, at: float, *, marker: bool = False, **fields: Any) -> ListedVersion:
    known: dict[str, Any] = {"etag": "stub", "size": 0, "modified": f"at-{at}"}
    return ListedVersion("key", version_id, False, marker, at, **{**known, **fields})


def newest_first(*versions: ListedVersion) -> list[ListedVersion]:
    return [version._replace(is_latest=number == 0) for number, version in enumerate(versions)]


def ids(versions: list[ListedVersion]) -> list[str]:
    return [version.version_id for version in versions]


# --- entries -----------------------------------------------------------------------------------------------------


def test_entries_of_a_key_are_those_of_no_other_key() -> None:
    assert entry_of("uid", "a", "v").startswith(entries_of_key("uid", "a"))
    assert not entry_of("uid", "a/b", "v").startswith(entries_of_key("uid", "a"))
    assert not entry_of("uid", "ab", "v").startswith(entries_of_key("uid", "a"))


def test_entries_stand_in_the_order_of_keys() -> None:
    keys = ["a", "a b", "a/", "a/b", "ab", "ä", "😀"]
    entries = [entry_of("uid", key, "null").encode() for key in sorted(keys, key=str.encode)]
    assert entries == sorted(entries)


def test_the_null_version_has_one_entry_however_it_is_named() -> None:
    assert entry_of("uid", "a", "") == entry_of("uid", "a", "null")


def test_without_an_id_the_current_version_is_meant() -> None:
    records = [record("v1", is_current=False), record("v2")]
    assert of_version(records, "") == records[1]
    assert of_version(records, "v1") == records[0]
    assert of_version(records, "v3") is None
    assert of_version([record("v1", is_void=True)], "v1") is None


def test_a_record_is_read_as_it_was_written() -> None:
    made = record("v1", headers=(("Content-Type", "x"),), tags=(("a", "b"),), parts=(5, 6))
    assert Placement.from_json(made.to_json()) == made


# --- listings ----------------------------------------------------------------------------------------------------


def test_a_stub_shows_the_version_that_it_stands_for() -> None:
    moved = record("v1", has_stub=True, stub_id="s1")
    (shown,) = merged(newest_first(stored("s1", 99.0)), [moved])
    assert (shown.version_id, shown.size, shown.last_modified, shown.is_latest) == ("v1", 5, 10.0, True)
    assert shown.storage_class == "COLD"


def test_an_original_that_is_still_there_is_shown_once() -> None:
    moved = record("v1", has_stub=True, stub_id="s1", has_original=True)
    assert ids(merged(newest_first(stored("s1", 99.0), stored("v1", 10.0)), [moved])) == ["v1"]


def test_versions_without_a_stub_stand_between_their_neighbours_also_if_times_are_equal() -> None:
    versions = newest_first(stored("v3", 10.0), stored("v1", 10.0))
    moved = record("v2", is_current=False, above="v3", below="v1")
    assert ids(merged(versions, [moved])) == ["v3", "v2", "v1"]
    assert ids(merged(versions[:1], [moved])) == ["v3", "v2"]


def test_versions_whose_neighbours_are_gone_stand_by_their_times() -> None:
    versions = newest_first(stored("v9", 90.0), stored("v1", 1.0))
    assert ids(merged(versions, [record("v2", is_current=False, above="x", below="y")])) == ["v9", "v2", "v1"]


def test_a_delete_marker_stays_on_top() -> None:
    versions = newest_first(stored("m", 99.0, marker=True), stored("s1", 50.0))
    shown = merged(versions, [record("v1", has_stub=True, stub_id="s1", is_current=False)])
    assert [(version.version_id, version.is_marker, version.is_latest) for version in shown] == [
        ("m", True, True),
        ("v1", False, False),
    ]


def test_a_void_record_hides_its_stub() -> None:
    versions = newest_first(stored("null", 99.0), stored("s1", 50.0))
    assert ids(merged(versions, [record("s1", has_stub=True, stub_id="s1", is_void=True)])) == ["null"]


# --- after a change ----------------------------------------------------------------------------------------------


def test_an_overwritten_object_is_released() -> None:
    moved = record(has_stub=True)
    assert settled([moved], newest_first(stored("null", 99.0)), stub_names={"null": ""}).released == (moved,)


def test_an_object_whose_stub_is_there_stays() -> None:
    moved = record(has_stub=True)
    kept = settled([moved], newest_first(stored("null", 99.0)), stub_names={"null": moved.stub_name})
    assert (kept.released, kept.kept, kept.promoted) == ((), (), None)


def test_the_stub_of_an_earlier_move_is_not_that_of_this_record() -> None:
    moved, earlier = record(has_stub=True), record(id="earlier").stub_name
    assert settled([moved], newest_first(stored("null", 99.0)), stub_names={"null": earlier}).released == (moved,)


def test_a_deleted_object_is_released() -> None:
    moved = record(has_stub=True)
    assert settled([moved], [], stub_names={}).released == (moved,)


def test_a_version_under_a_new_one_is_no_longer_current() -> None:
    moved = record("v1", has_stub=True, stub_id="s1")
    outcome = settled([moved], newest_first(stored("v2", 99.0), stored("s1", 50.0)), stub_names={})
    assert outcome.kept == (replace(moved, is_current=False),)
    assert outcome.promoted is None


def test_a_version_deleted_by_its_id_is_released_and_the_next_gets_a_stub() -> None:
    first = record("v1", is_current=False, above="v2")
    second = record("v2", has_stub=True, stub_id="s2", below="v1")
    outcome = settled([first, second], [], stub_names={}, deleted="v2")
    assert outcome.released == (second,)
    assert outcome.promoted == first
    assert outcome.kept == (replace(first, is_current=True),)


def test_a_named_version_whose_stub_a_null_version_replaced_is_noncurrent() -> None:
    moved = record("v1", has_stub=True, stub_id="null")
    outcome = settled([moved], newest_first(stored("null", 99.0)), stub_names={"null": ""})
    assert outcome.released == ()
    assert outcome.kept == (replace(moved, has_stub=False, stub_id="", is_current=False),)


def test_a_placement_that_was_cut_off_before_its_stub_gets_it() -> None:
    moved = record()
    original = stored("null", 10.0, size=5, etag="etag", modified=moved.modified)
    outcome = settled([moved], newest_first(original), stub_names={"null": ""})
    assert (outcome.promoted, outcome.released) == (moved, ())


def test_a_placement_that_was_cut_off_is_released_if_the_object_was_written_anew() -> None:
    moved = record()
    anew = stored("null", 20.0, size=5, etag="etag", modified="2026-01-01T00:00:20Z")
    assert settled([moved], newest_first(anew), stub_names={"null": ""}).released == (moved,)


def test_a_later_null_version_releases_the_one_whose_stub_has_an_id() -> None:
    moved = record("null", has_stub=True, stub_id="s1")
    versions = newest_first(stored("null", 99.0, size=1), stored("s1", 50.0))
    assert settled([moved], versions, stub_names={"null": ""}).released == (moved,)


def test_a_void_record_goes_when_its_stub_may_go() -> None:
    void = record("s1", has_stub=True, stub_id="s1", is_void=True)
    null_current = newest_first(stored("null", 99.0), stored("s1", 50.0))
    assert settled([void], null_current, stub_names={"null": ""}).released == ()
    named_current = newest_first(stored("v9", 99.0), stored("s1", 50.0))
    assert settled([void], named_current, stub_names={}).released == (void,)
    assert settled([void], newest_first(stored("null", 99.0)), stub_names={"null": ""}).released == (void,)
