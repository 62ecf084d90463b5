"""Pages of objects are cut into entries as they stand, and those of another shape are parsed."""

from __future__ import annotations

import pytest

from tidegate.core.errors import Unavailable
from tidegate.core.object_pages import parse_object_page


def page(inside: str, *, encoded: bool = True) -> bytes:
    kind = "<EncodingType>url</EncodingType>" if encoded else ""
    text = f"<Name>b</Name>{kind}<IsTruncated>true</IsTruncated>{inside}"
    return f'<?xml version="1.0"?><ListBucketResult xmlns="x">{text}</ListBucketResult>'.encode()


def contents(key: str, more: str = "<Size>1</Size>") -> str:
    return f"<Contents><Key>{key}</Key>{more}</Contents>"


def test_entries_stay_as_they_were_written() -> None:
    found = parse_object_page(page(contents("a%2Bb+c") + contents("d&amp;e") + contents("f")))
    assert list(found.entries) == ["a+b c", "d&e", "f"]
    assert found.entries["a+b c"] == contents("a%2Bb+c").encode()
    assert found.is_truncated
    assert found.text_without_last() == (contents("a%2Bb+c") + contents("d&amp;e")).encode()


def test_names_are_decoded_only_if_the_store_says_that_they_are_encoded() -> None:
    found = parse_object_page(page(contents("a%2Bb+c"), encoded=False))
    assert list(found.entries) == ["a%2Bb+c"]


def test_common_prefixes_may_stand_before_or_after_the_entries() -> None:
    prefix = "<CommonPrefixes><Prefix>p%20q/</Prefix></CommonPrefixes>"
    for inside in (prefix + contents("a"), contents("a") + prefix, prefix):
        assert parse_object_page(page(inside)).prefixes == ("p q/",)


@pytest.mark.parametrize(
    "inside",
    [
        "<Contents><Size>1</Size><Key>a</Key></Contents>",
        "<Contents>\n<Key>a</Key></Contents>",
        contents("a") + "<Contents ><Key>b</Key></Contents>",
        contents("a", "<Owner><ID>&#1;</ID></Owner>").replace("&#1;", "x"),
        "<CommonPrefixes>\n<Prefix>p/</Prefix></CommonPrefixes>" + contents("a"),
        contents("a\nb"),
    ],
)
def test_pages_of_another_shape_are_read_as_well(inside: str) -> None:
    found = parse_object_page(page(inside))
    assert next(iter(found.entries)) in ("a", "a\nb")
    assert all(entry.startswith(b"<Contents>") and entry.endswith(b"</Contents>") for entry in found.entries.values())


@pytest.mark.parametrize("body", [b"", b"<ListBucketResult>", b"<Error/>", b"<ListVersionsResult/>"])
def test_what_is_no_page_is_trouble_of_the_store(body: bytes) -> None:
    with pytest.raises(Unavailable):
        parse_object_page(body)
