"""The identity that a conditional delete names, compared with what the store shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.errors import Unavailable
from tidegate.core.identities import Identity, holds, moment, needs_look
from tidegate.core.object_pages import identity_of, parse_object_page
from tidegate.core.xml import DeleteEntry

MOMENT = 1_700_000_000  # Tue, 14 Nov 2023 22:13:20 GMT
STORED = Identity("etag", 5, MOMENT)


@pytest.mark.parametrize(
    "text",
    [
        "Tue, 14 Nov 2023 22:13:20 GMT",
        "Tue, 14 Nov 2023 23:13:20 +0100",
        "Tue, 14 Nov 2023 22:13:20 -0000",
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:20",
        "2023-11-14T23:13:20+01:00",
    ],
)
def test_a_time_is_read_in_every_usual_form(text: str) -> None:
    assert moment(text) == MOMENT
    assert holds(DeleteEntry("k", last_modified=text), STORED)


@given(st.text(max_size=60))
def test_no_text_is_too_odd_to_be_refused_as_a_time(text: str) -> None:
    found = moment(text)
    assert found is None or isinstance(found, float)


@pytest.mark.parametrize("text", ["", "Mon, 99 Foo 99999 99:99:99 GMT", "a b c d e f", "1 Jan 99999999999 0:0:0 +0000"])
def test_what_is_no_time_is_true_of_nothing(text: str) -> None:
    assert moment(text) is None
    assert not holds(DeleteEntry("k", last_modified=text), STORED)
    assert not holds(DeleteEntry("k", unmodified_since=text), STORED)


@pytest.mark.parametrize(
    ("conditions", "same"),
    [
        ({}, True),
        ({"size": 5}, True),
        ({"size": 4}, False),
        ({"size": 6}, False),
        ({"etag": '"etag"'}, True),
        ({"etag": "etag"}, True),
        ({"etag": "*"}, True),
        ({"etag": '"other"'}, False),
        ({"etag": 'W/"etag"'}, False),
        ({"last_modified": "2023-11-14T22:13:20.999Z", "size": 5}, True),
        ({"last_modified": "2023-11-14T22:13:21Z"}, False),
        ({"last_modified": "2023-11-14T22:13:19Z"}, False),
        ({"last_modified": "2023-11-14T22:13:20Z", "size": 6}, False),
        ({"unmodified_since": "2023-11-14T22:13:20Z"}, True),
        ({"unmodified_since": "2023-11-14T22:13:20.000001Z"}, True),
        ({"unmodified_since": "2023-11-14T22:13:19.999999Z"}, False),
        ({"unmodified_since": "2023-11-14T22:13:20Z", "etag": '"other"'}, False),
    ],
)
def test_every_part_that_is_named_must_be_true(conditions: dict[str, object], same: bool) -> None:
    assert holds(DeleteEntry("k", **conditions), STORED) is same  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["last_modified", "unmodified_since"])
def test_a_store_that_tells_no_time_fulfils_no_condition_on_it(name: str) -> None:
    entry = DeleteEntry("k", **{name: "2050-01-01T00:00:00Z"})  # type: ignore[arg-type]
    assert not holds(entry, Identity("etag", 5, None))


def test_only_what_a_backend_does_not_compare_needs_a_look() -> None:
    assert not needs_look(DeleteEntry("k")) and not needs_look(DeleteEntry("k", "v", '"etag"'))
    assert needs_look(DeleteEntry("k", size=0))
    assert needs_look(DeleteEntry("k", last_modified="x")) and needs_look(DeleteEntry("k", unmodified_since="x"))


def page(contents: str, space: str = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"') -> bytes:
    return f"<ListBucketResult{space}><IsTruncated>true</IsTruncated>{contents}</ListBucketResult>".encode()


@pytest.mark.parametrize("space", ["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'])
def test_a_listing_of_objects_tells_their_identities(space: str) -> None:
    contents = (
        "<EncodingType>url</EncodingType><Contents><Key>a%2Fb+c%0A</Key><ETag>&#34;etag&#34;</ETag><Size>5</Size>"
        "<LastModified>2023-11-14T22:13:20Z</LastModified></Contents><Contents><Key>z</Key></Contents>"
    )
    found = parse_object_page(page(contents, space))
    identities = {key: identity_of(entry) for key, entry in found.entries.items()}
    assert identities == {"a/b c\n": STORED, "z": Identity("", -1, None)}
    assert found.is_truncated


def test_keys_that_are_not_encoded_are_taken_as_they_are() -> None:
    assert list(parse_object_page(page("<Contents><Key>a+b%20</Key></Contents>")).entries) == ["a+b%20"]


@pytest.mark.parametrize(
    "body", [b"", b"<ListBucketResult>", b"<Error/>", page("<Contents><Key>k</Key><Size>many</Size></Contents>")]
)
def test_a_listing_that_cannot_be_read_is_trouble_of_the_store(body: bytes) -> None:
    with pytest.raises(Unavailable):
        for entry in parse_object_page(body).entries.values():
            identity_of(entry)
