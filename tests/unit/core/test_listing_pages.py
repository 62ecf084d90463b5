"""Pages of listings: markers, prefixes, and what a store's text for a time can mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.errors import Unavailable
from tidegate.core.listing_entries import usual_entries
from tidegate.core.listings import VersionPage, latest_moment_ns, parse_upload_page, parse_version_page
from tidegate.core.xml_writer import element

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "latest"),
    [
        ("1970-01-01T00:00:07Z", 8 * SECOND - 1),
        ("1970-01-01T00:00:07.000Z", 8 * SECOND - 1),
        ("1970-01-01T00:00:07.25Z", 7_259_999_999),
        ("1970-01-01T00:00:07.123Z", 7_123_999_999),
        ("1970-01-01T00:00:07.123456Z", 7_123_456_999),
        ("1970-01-01T01:00:07+01:00", 8 * SECOND - 1),
    ],
)
def test_a_time_means_at_the_latest_the_end_of_its_last_digit(text: str, latest: int) -> None:
    assert latest_moment_ns(text) == latest


def test_a_time_that_is_none_is_the_stores_fault() -> None:
    with pytest.raises(Unavailable):
        latest_moment_ns("yesterday")


def test_keys_prefixes_and_markers_of_an_encoded_page_are_decoded() -> None:
    body = b"""<ListVersionsResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
    <NextKeyMarker>a%20b</NextKeyMarker><NextVersionIdMarker>v1</NextVersionIdMarker>
    <Version><Key>a%20b</Key><VersionId>v1</VersionId><IsLatest>true</IsLatest><ETag>"e"</ETag><Size>3</Size>
    <Owner><ID>o</ID></Owner><LastModified>2026-01-01T00:00:00Z</LastModified></Version>
    <CommonPrefixes><Prefix>c%2Bd/</Prefix></CommonPrefixes></ListVersionsResult>"""
    page = parse_version_page(body)
    assert (page.is_truncated, page.next_key, page.next_version_id) == (True, "a b", "v1")
    assert page.prefixes == ("c+d/",)
    (version,) = page.versions
    assert (version.key, version.etag, version.size, version.modified) == ("a b", "e", 3, "2026-01-01T00:00:00Z")


def test_a_full_page_of_a_thousand_versions_is_not_too_large() -> None:
    entry = (
        "<Version><Key>k</Key><VersionId>v</VersionId><IsLatest>false</IsLatest><ETag>e</ETag><Size>1</Size>"
        "<Owner><ID>o</ID><DisplayName>o</DisplayName></Owner><StorageClass>STANDARD</StorageClass>"
        "<LastModified>2026-01-01T00:00:00Z</LastModified></Version>"
    )
    assert len(parse_version_page(f"<ListVersionsResult>{entry * 1000}</ListVersionsResult>".encode()).versions) == 1000


def test_a_page_of_uploads_tells_where_the_next_begins() -> None:
    body = b"""<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextUploadIdMarker>u</NextUploadIdMarker>
    <Upload><Key>k</Key><UploadId>u</UploadId><Initiated>2026-01-01T00:00:00Z</Initiated></Upload>
    </ListMultipartUploadsResult>"""
    page = parse_upload_page(body)
    assert (page.is_truncated, page.next_key, page.next_upload_id) == (True, "", "u")
    assert [(upload.key, upload.started) for upload in page.uploads] == [("k", "2026-01-01T00:00:00Z")]


FIELDS = ["Key", "VersionId", "IsLatest", "LastModified", "ETag", "Size", "StorageClass", "Owner"]
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=8)


@st.composite
def entries(draw: st.DrawFn) -> str:
    """Mostly of one shape, now and then of another."""
    kind = draw(st.sampled_from(["Version", "Version", "DeleteMarker"]))
    names = draw(st.sampled_from([FIELDS, FIELDS, FIELDS[:4], FIELDS[::-1]]))
    known = {"LastModified": "2026-01-01T00:00:00Z", "Size": "7", "IsLatest": draw(st.sampled_from(["true", "false"]))}
    values = [
        "<Owner><ID>o</ID><Key>not this</Key></Owner>"
        if name == "Owner"
        else element(name, known.get(name) or draw(texts))
        for name in names
    ]
    odd = draw(st.sampled_from(["", "", "", "<!-- no entry: <Version></Version> -->", "\n", "<Name>b</Name>"]))
    return f"<{kind}>{''.join(values)}</{kind}>{odd}"


def by_the_parser(body: bytes) -> VersionPage:
    """An empty comment makes every page an unusual one."""
    return parse_version_page(body.replace(b"</ListVersionsResult>", b"<!----></ListVersionsResult>"))


@given(st.lists(entries(), max_size=6), st.sampled_from(["", "<EncodingType>url</EncodingType>"]))
def test_a_page_is_read_in_the_quick_way_as_the_parser_reads_it(found: list[str], encoding: str) -> None:
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ListVersionsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    )
    body = f"{head}{encoding}<IsTruncated>true</IsTruncated>{''.join(found)}</ListVersionsResult>".encode()
    assert parse_version_page(body) == by_the_parser(body)


def test_a_page_of_one_shape_is_read_in_the_quick_way() -> None:
    entry = "<Version><Key>a&amp;b &#x1F600;</Key><ETag>&#34;e&#34;</ETag><Owner><ID>o</ID></Owner></Version>"
    marker = "<DeleteMarker><Key>c</Key></DeleteMarker>"
    found = usual_entries(f"<ListVersionsResult><A>1</A>{entry}{marker}{entry}</ListVersionsResult>".encode())
    assert found is not None
    shown = [(kind, fields[0], fields[4]) for kind, fields in found[0]]
    assert shown == [
        ("Version", "a&b \U0001f600", '"e"'),
        ("DeleteMarker", "c", ""),
        ("Version", "a&b \U0001f600", '"e"'),
    ]
    assert found[1] == b"<ListVersionsResult><A>1</A></ListVersionsResult>"


@pytest.mark.parametrize(
    "body",
    [
        b"<ListVersionsResult><Version><Key>a</Key><Size>-1</Size></Version></ListVersionsResult>",
        b"<ListVersionsResult><Version><Key>&nothing;</Key></Version></ListVersionsResult>",
        b"<ListVersionsResult><Version><Key>a</Key></Version>",
        b"<ListVersionsResult><Version><Key>a\x01</Key></Version></ListVersionsResult>",
        b"<!DOCTYPE x [<!ENTITY e 'v'>]><ListVersionsResult><Version><Key>&e;</Key></Version></ListVersionsResult>",
        b"<Version><Key>a</Key></Version>",
        b"<ListVersionsResult>" + b"<Version></Version>" * 30_000 + b"</ListVersionsResult>",
    ],
    ids=["size", "entity", "cut off", "control character", "doctype", "root", "too many"],
)
def test_a_page_that_cannot_be_read_is_the_stores_fault(body: bytes) -> None:
    with pytest.raises(Unavailable):
        parse_version_page(body)
