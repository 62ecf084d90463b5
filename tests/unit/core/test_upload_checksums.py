"""What a completion states of checksums and sizes, and what the upload and its parts are."""

from __future__ import annotations

import base64
import hashlib

import pytest

from tidegate.core.errors import Unavailable
from tidegate.core.part_lists import part_sizes, with_checksums
from tidegate.core.s3errors import S3Error
from tidegate.core.upload_checksums import (
    PartName,
    UploadChecksum,
    check_parts,
    check_size,
    completion_header,
    shown,
)
from tidegate.core.xml import CompletedPart

SHA256, CRC32 = b"x-amz-checksum-sha256", b"x-amz-checksum-crc32"
VALUE = base64.b64encode(hashlib.sha256(b"x").digest())
COMPOSITE, FULL = UploadChecksum("SHA256", "COMPOSITE"), UploadChecksum("CRC32", "FULL_OBJECT")


def code_of(upload: UploadChecksum | None, headers: dict[bytes, bytes]) -> str:
    with pytest.raises(S3Error) as error:
        completion_header(upload, headers, 3)
    return error.value.code


def test_a_composite_checksum_gets_the_number_of_parts_that_stores_compare() -> None:
    for given in (VALUE, VALUE + b"-3", b" " + VALUE):
        assert completion_header(COMPOSITE, {SHA256: given}, 3) == (SHA256, VALUE + b"-3")


def test_a_checksum_of_the_full_object_stays_as_it_is() -> None:
    assert completion_header(FULL, {CRC32: b"AAAAAA=="}, 3) == (CRC32, b"AAAAAA==")


@pytest.mark.parametrize("kind", [b"", b"COMPOSITE"])
def test_a_completion_need_not_state_a_checksum(kind: bytes) -> None:
    headers = {b"x-amz-checksum-type": kind} if kind else {}
    assert completion_header(COMPOSITE, headers, 3) is None
    assert completion_header(None, headers, 3) is None


@pytest.mark.parametrize(
    ("upload", "headers", "code"),
    [
        (None, {SHA256: VALUE}, "InvalidRequest"),
        (COMPOSITE, {CRC32: b"AAAAAA=="}, "InvalidRequest"),
        (COMPOSITE, {SHA256: VALUE, CRC32: b"AAAAAA=="}, "InvalidRequest"),
        (COMPOSITE, {b"x-amz-checksum-md5": VALUE}, "InvalidRequest"),
        (COMPOSITE, {SHA256: VALUE, b"x-amz-checksum-type": b"FULL_OBJECT"}, "InvalidRequest"),
        (FULL, {b"x-amz-checksum-type": b"COMPOSITE"}, "InvalidRequest"),
        (COMPOSITE, {SHA256: VALUE + b"-2"}, "BadDigest"),
        (COMPOSITE, {SHA256: VALUE + b"-"}, "InvalidRequest"),
        (COMPOSITE, {SHA256: VALUE + b"-x"}, "InvalidRequest"),
        (COMPOSITE, {SHA256: VALUE + b"-3-3"}, "InvalidRequest"),
        (COMPOSITE, {SHA256: VALUE[:-4]}, "InvalidRequest"),
        (COMPOSITE, {SHA256: b"!" * len(VALUE)}, "InvalidDigest"),
        (FULL, {CRC32: b"AAAAAA==-3"}, "InvalidRequest"),
    ],
)
def test_what_could_not_be_compared_is_refused(
    upload: UploadChecksum | None, headers: dict[bytes, bytes], code: str
) -> None:
    assert code_of(upload, headers) == code


def part(number: int, **fields: str) -> CompletedPart:
    return CompletedPart(number, {"ETag": '"e"', **fields})


NOTED = {PartName(1, "e"): ("ChecksumCRC32", "AAAAAA==")}


def test_checksums_of_parts_are_those_that_were_noted() -> None:
    for is_certain in (False, True):
        check_parts([part(1, ChecksumCRC32="AAAAAA=="), part(2)], NOTED, is_certain=is_certain)
        for wrong in (part(1, ChecksumCRC32="AAAAAB=="), part(1, ChecksumSHA1="AAAAAA==")):
            with pytest.raises(S3Error, match="InvalidPart"):
                check_parts([wrong], NOTED, is_certain=is_certain)


def test_a_checksum_that_nobody_noted_is_left_to_whoever_compares_it() -> None:
    unknown = [part(2, ChecksumCRC32="AAAAAA=="), CompletedPart(1, {"ETag": "other", "ChecksumCRC32": "AAAAAA=="})]
    check_parts(unknown, NOTED, is_certain=False)
    for each in unknown:
        with pytest.raises(S3Error, match="InvalidPart"):
            check_parts([each], NOTED, is_certain=True)


def test_the_size_is_that_of_the_parts_that_are_named() -> None:
    sizes = {PartName(1, "e"): 5, PartName(1, "other"): 7, PartName(2, "e"): 1}
    check_size(b"6", [part(1), part(2)], sizes)
    check_size(b"any", [part(3)], sizes)
    for wrong in (b"8", b"", b"-6", b"6.0"):
        with pytest.raises(S3Error, match="InvalidRequest"):
            check_size(wrong, [part(1), part(2)], sizes)


def test_the_checksum_of_a_reply_is_known_by_its_name_in_documents() -> None:
    assert shown({b"etag": b"e", b"x-amz-checksum-crc64nvme": b"v"}) == ("ChecksumCRC64NVME", "v")
    assert shown({b"x-amz-checksum-type": b"COMPOSITE"}) is None
    assert UploadChecksum.from_text(COMPOSITE.to_text()) == COMPOSITE


LIST = (
    b'<ListPartsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Key>a&amp;b</Key>'
    b"<Part><ETag>&#34;e&#34;</ETag><PartNumber>1</PartNumber><Size>5</Size></Part>"
    b"<Part><ETag>&#34;f&#34;</ETag><PartNumber>1</PartNumber><Size>6</Size></Part></ListPartsResult>"
)


def test_a_list_of_parts_is_read_and_completed() -> None:
    assert part_sizes(LIST) == {PartName(1, "e"): 5, PartName(1, "f"): 6}
    assert with_checksums(LIST, None, {}) == LIST
    found = with_checksums(LIST, COMPOSITE, NOTED)
    assert found.count(b"<ChecksumCRC32>AAAAAA==</ChecksumCRC32>") == 1
    assert b"<Size>5</Size><ChecksumCRC32>" in found
    assert b"<Key>a&amp;b</Key>" in found
    assert found.endswith(
        b"<ChecksumAlgorithm>SHA256</ChecksumAlgorithm><ChecksumType>COMPOSITE</ChecksumType></ListPartsResult>"
    )


@pytest.mark.parametrize("body", [b"<Other/>", b"<", b"<ListPartsResult><Part/></ListPartsResult>"])
def test_what_is_no_list_of_parts_is_not_taken_for_one(body: bytes) -> None:
    with pytest.raises(Unavailable):
        part_sizes(body)
