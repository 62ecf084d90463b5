"""What the log has about a key: made, deleted, tagged, uploaded."""

from __future__ import annotations

from typing import Any

from tidegate.core.events import Event, EventKind
from tidegate.core.known_events import KnownEvents

SECOND_NS = 1_000_000_000


def event(seconds: float, kind: EventKind, **fields: Any) -> Event:
    return Event(int(seconds * SECOND_NS), kind, "pool", "bucket", "uid", key="k", **fields)


def put(seconds: float, version_id: str = "", etag: str = "e", **fields: Any) -> Event:
    return event(seconds, EventKind.PUT, version_id=version_id, etag=etag, **fields)


def test_a_named_version_is_known_until_it_is_deleted() -> None:
    made, gone = put(1, "v1"), event(2, EventKind.DELETE, version_id="v1")
    assert KnownEvents([made]).may_have("v1")
    assert not KnownEvents([gone, made]).may_have("v1"), "the order of times counts"
    assert KnownEvents([made, gone]).has_deletion("v1")
    assert not KnownEvents([made]).has_deletion("v1")
    assert not KnownEvents().may_have("v1") and not KnownEvents().has_deletion("v1")


def test_a_null_version_is_known_if_it_is_the_one_that_the_store_shows() -> None:
    known = KnownEvents([put(10.5)])
    assert known.has_null_version(EventKind.PUT, "e", 10)
    assert not known.has_null_version(EventKind.PUT, "e", 11), "written again since then, with the same bytes"
    assert not known.has_null_version(EventKind.PUT, "other", 10)
    assert not known.has_null_version(EventKind.DELETE_MARKER, "", 10)
    marked = KnownEvents([put(10.5, "null"), event(11.5, EventKind.DELETE_MARKER, version_id="null")])
    assert marked.has_null_version(EventKind.DELETE_MARKER, "", 11)
    assert not marked.has_null_version(EventKind.PUT, "e", 10)


def test_the_last_tags_of_a_version_are_known_in_any_order() -> None:
    first, second = (("a", "1"), ("b", "2")), (("c", "3"),)
    known = KnownEvents([put(1, "v1", tags=first), put(2, "v2"), event(3, EventKind.TAGGING, tags=second)])
    assert known.has_tags("v1", first[::-1]) and not known.has_tags("v1", ())
    assert known.has_tags("v2", second), "without an id the current version is meant"
    assert not KnownEvents([event(3, EventKind.TAGGING, tags=second)]).has_tags("v0", second)
    assert not KnownEvents([put(1, tags=first), event(2, EventKind.DELETE)]).has_tags("", first)


def test_tags_without_an_id_after_the_current_version_was_deleted_may_be_those_of_any_version() -> None:
    tags = (("a", "1"),)
    made, gone = [put(1, "v8"), put(2, "v9")], event(3, EventKind.DELETE, version_id="v9")
    tagged = event(4, EventKind.TAGGING, tags=tags)
    assert KnownEvents([*made, gone]).has_tags("v8", ())
    known = KnownEvents([*made, gone, tagged])
    assert not known.has_tags("v8", ()) and not known.has_tags("v8", tags) and not known.has_tags("v9", tags)
    assert KnownEvents([*made, gone, tagged, event(5, EventKind.TAGGING, version_id="v8")]).has_tags("v8", ())
    other = event(3, EventKind.DELETE, version_id="v8")
    assert KnownEvents([*made, other, tagged]).has_tags("v9", tags), "the current version is still there"


def test_uploads_are_known_as_begun_or_ended() -> None:
    begun = event(1, EventKind.UPLOAD_STARTED, upload_id="u")
    assert KnownEvents([begun]).has_upload("u", is_open=True)
    for end in (event(2, EventKind.UPLOAD_ABORTED, upload_id="u"), put(2, upload_id="u")):
        assert KnownEvents([begun, end]).has_upload("u", is_open=False)
    assert not KnownEvents().has_upload("u", is_open=False)


def test_a_move_is_no_write_and_no_deletion() -> None:
    moved = event(12, EventKind.MOVED, storage_class="GLACIER")
    known = KnownEvents([put(10.5, tags=(("a", "1"),)), moved])
    assert known.has_null_version(EventKind.PUT, "e", 10) and known.may_have("")
    assert known.has_tags("", (("a", "1"),)) and not known.has_deletion("")
    assert not KnownEvents([moved]).may_have("")
