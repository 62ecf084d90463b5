"""The one codec: odd texts survive, unknown fields are ignored, what is malformed is refused, old texts are read."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.codec import decoded, to_bytes
from tidegate.core.errors import InvalidInput
from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.stops import Stops
from tidegate.core.records import Bucket, Pool, User

# With lone surrogates, which Python uses for names of files that are not UTF-8.
any_text = st.text(st.characters(), max_size=20)


@given(any_text, st.floats(0, 4e9), st.none() | st.floats(0, 4e9))
def test_a_record_is_read_back_as_it_was_written_and_as_the_standard_library_writes_it(text, created_at, expires_at):
    pool = Pool("p", "o", "g", text, "seaweedfs", created_at, expires_at=expires_at)
    written = json.dumps(asdict(pool), separators=(",", ":"), sort_keys=True)
    assert Pool.from_json(pool.to_json()) == Pool.from_json(written) == pool
    assert json.loads(pool.to_json()) == json.loads(written)


def test_the_text_of_a_record_is_the_one_that_earlier_versions_wrote():
    """Tables exchange a record only where they find the text that is expected."""
    user = User("u", True, 1763442000.25, ("a", "b"))
    assert user.to_json() == '{"groups":["a","b"],"modified_at":1763442000.25,"name":"u","permitted":true}'


@given(any_text)
def test_an_event_with_any_key_is_read_back(key):
    event = Event(1, EventKind.PUT, "p", "b", "u", key=key, tags=((key, key),))
    assert Event.from_bytes(event.to_bytes()) == event


@pytest.mark.parametrize("key", ["\ud800", "line\nbreak", "\x00", "😀" * 256, "\u2028", '"\\'])
def test_an_event_that_an_earlier_version_wrote_is_read(key):
    written = json.dumps({"ts_ns": 1, "operation": "put", "pool": "p", "bucket": "b", "bucket_uid": "u", "key": key})
    assert Event.from_bytes(written.encode()) == Event(1, EventKind.PUT, "p", "b", "u", key=key)


def test_fields_of_a_newer_version_are_ignored():
    bucket = Bucket("b", "p", "u", "none", 1.0)
    assert Bucket.from_json(json.dumps(asdict(bucket) | {"later": [1]})) == bucket


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"name":1}', "{" * 10, "[" * 100_000])
def test_what_is_no_record_is_refused(text):
    with pytest.raises(InvalidInput, match="not a stored Bucket"):
        Bucket.from_json(text)


def test_a_stop_that_was_lost_does_not_read_as_none():
    assert Stops.from_json(Stops().to_json()) == Stops()
    for text in ("{}", '{"number":1}', '{"of":{}}'):
        with pytest.raises(InvalidInput, match="lacks"):
            Stops.from_json(text)


def test_messages_keep_the_order_of_their_fields():
    assert to_bytes({"b": 1, "a": "é"}) == '{"b":1,"a":"é"}'.encode()
    assert decoded(b'{"b":1}', dict[str, int], "thing") == {"b": 1}
