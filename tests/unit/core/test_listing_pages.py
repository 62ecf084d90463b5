"""Pages of listings: markers, prefixes, and what a store's text for a time can mean."""

from __future__ import annotations

import pytest

from tidegate.core.errors import Unavailable
from tidegate.core.listings import latest_moment_ns, parse_upload_page, parse_version_page

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
