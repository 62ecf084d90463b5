"""Events survive the way through the log, whatever their keys hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.errors import InvalidInput
from tidegate.core.events import Event, EventKind

text = st.text(max_size=20)
pairs = st.dictionaries(text, text, max_size=3).map(lambda values: tuple(values.items()))
events = st.builds(
    Event,
    ts_ns=st.integers(0, 2**63 - 1),
    operation=st.sampled_from(EventKind),
    size=st.none() | st.integers(0, 2**50),
    tags=pairs,
    attributes=pairs,
    is_replica=st.booleans(),
    **dict.fromkeys(
        ["pool", "bucket", "bucket_uid", "owner", "key", "version_id", "etag", "storage_class", "upload_id", "source"],
        text,
    ),
)


@given(events)
def test_event_is_read_back_as_it_was_written(event):
    assert Event.from_bytes(event.to_bytes()) == event


@given(events)
def test_bytes_are_one_line_of_plain_json(event):
    data = event.to_bytes()
    values = json.loads(data)
    assert b"\n" not in data
    assert values["tags"] == dict(event.tags)
    assert list(values) == list(Event.__struct_fields__)
    assert data == json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()


def test_field_of_a_newer_version_is_ignored_and_a_missing_one_has_its_default():
    data = b'{"ts_ns":1,"operation":"put","pool":"p","bucket":"b","bucket_uid":"u","colour":"blue"}'
    assert Event.from_bytes(data) == Event(1, EventKind.PUT, "p", "b", "u")


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b'{"operation":"dance"}', b'{"operation":"put","tags":3}', b"\xff"]
)
def test_bytes_that_are_no_event_are_refused(data):
    with pytest.raises(InvalidInput, match="not an event"):
        Event.from_bytes(data)


def test_kinds_have_the_names_that_readers_of_the_log_rely_on():
    assert [kind.value for kind in EventKind] == [
        *("put", "delete", "delete-marker", "upload-started", "upload-aborted", "tagging", "moved"),
        *("bucket-created", "bucket-deleted", "bucket-attributes"),
    ]
