"""Checksums of uploads in parts are compared before anything is completed, and shown."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from awscrt import checksums as crc
from botocore.exceptions import ClientError
from places import Place
from running_service import RunningService

from tidegate import settings as settings_module
from tidegate.assembly import open_tables

PARTS = [b"a" * (5 << 20), b"b" * (5 << 20), b"the end"]
ATTRIBUTES = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def crc32(data: bytes) -> bytes:
    return crc.crc32(data).to_bytes(4, "big")


def crc64nvme(data: bytes) -> bytes:
    return crc.crc64nvme(data).to_bytes(8, "big")


DIGESTS: dict[str, Callable[[bytes], bytes]] = {"SHA256": sha256, "CRC32": crc32, "CRC64NVME": crc64nvme}
# With an algorithm, the types of checksums that S3 has for it.
KINDS = [("SHA256", "COMPOSITE"), ("CRC32", "COMPOSITE"), ("CRC32", "FULL_OBJECT"), ("CRC64NVME", "FULL_OBJECT")]


def text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


class Upload:
    """An upload of all parts, each with its checksum."""

    def __init__(self, place: Place, algorithm: str, kind: str, *, begun_with: bool = True) -> None:
        self.s3, self.algorithm, self.kind = place.s3, algorithm, kind
        self.digest = DIGESTS[algorithm]
        self.where = {"Bucket": place.bucket, "Key": place.fresh("checked")}
        with_checksum = {"ChecksumAlgorithm": algorithm, "ChecksumType": kind} if begun_with else {}
        made = place.s3.create_multipart_upload(**self.where, **with_checksum)
        self.where_open = self.where | {"UploadId": made["UploadId"]}
        self.parts = [self.put(number, data) for number, data in enumerate(PARTS, 1)]

    def put(self, number: int, data: bytes) -> dict[str, Any]:
        field = {f"Checksum{self.algorithm}": text(self.digest(data))}
        put = self.s3.upload_part(**self.where_open, PartNumber=number, Body=data, **field)
        return {"PartNumber": number, "ETag": put["ETag"], **field}

    @property
    def composite(self) -> str:
        return text(self.digest(b"".join(map(self.digest, PARTS))))

    @property
    def full(self) -> str:
        return text(self.digest(b"".join(PARTS)))

    def complete(self, value: str = "", parts: Any = None, **more: Any) -> dict[str, Any]:
        given = {f"Checksum{self.algorithm}": value} if value else {}
        made: dict[str, Any] = self.s3.complete_multipart_upload(
            **self.where_open, MultipartUpload={"Parts": parts or self.parts}, **given, **more
        )
        return made

    def refusal(self, *words: Any, **more: Any) -> str:
        """The code that a completion is refused with; nothing has come about."""
        with pytest.raises(ClientError) as refused:
            self.complete(*words, **more)
        with pytest.raises(ClientError) as missing:
            self.s3.head_object(**self.where)
        assert missing.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
        return str(refused.value.response["Error"]["Code"])


@pytest.mark.parametrize(("algorithm", "kind"), KINDS)
def test_an_objects_checksum_is_compared_in_every_form(place: Place, algorithm: str, kind: str) -> None:
    upload = Upload(place, algorithm, kind)
    right, other = (upload.composite, upload.full) if kind == "COMPOSITE" else (upload.full, upload.composite)
    assert upload.refusal(text(upload.digest(b"something else"))) == "BadDigest"
    assert upload.refusal(other) == "BadDigest"
    if kind == "COMPOSITE":
        assert upload.refusal(right + "-2") == "BadDigest"
    else:
        assert upload.refusal(right + "-3") == "InvalidRequest"
    assert upload.refusal("AAAA") == "InvalidRequest"
    wrong_kind = "FULL_OBJECT" if kind == "COMPOSITE" else "COMPOSITE"
    assert upload.refusal(right, ChecksumType=wrong_kind) == "InvalidRequest"
    made = upload.complete(right)
    shown = right + "-3" if kind == "COMPOSITE" else right
    assert (made[f"Checksum{algorithm}"], made["ChecksumType"]) == (shown, kind)
    head = upload.s3.head_object(**upload.where, ChecksumMode="ENABLED")
    assert head[f"Checksum{algorithm}"] == shown


@pytest.mark.parametrize("algorithm", ["SHA256", "CRC32"])
def test_a_composite_checksum_passes_with_its_number_of_parts(place: Place, algorithm: str) -> None:
    upload = Upload(place, algorithm, "COMPOSITE")
    made = upload.complete(upload.composite + "-3", ChecksumType="COMPOSITE")
    assert made[f"Checksum{algorithm}"] == upload.composite + "-3"


def test_a_checksum_of_another_algorithm_is_refused(place: Place) -> None:
    upload = Upload(place, "CRC32", "FULL_OBJECT")
    assert upload.refusal(ChecksumSHA256=text(sha256(b"".join(PARTS)))) == "InvalidRequest"
    upload.complete()


def test_a_checksum_that_nobody_could_compare_is_refused(place: Place) -> None:
    upload = Upload(place, "CRC32", "", begun_with=False)
    assert upload.refusal(upload.full) == "InvalidRequest"
    assert upload.refusal(upload.composite + "-3") == "InvalidRequest"
    wrong = [upload.parts[0] | {"ChecksumCRC32": text(crc32(b"x"))}, *upload.parts[1:]]
    assert upload.refusal(parts=wrong) == "InvalidPart"
    upload.complete()


@pytest.mark.parametrize(("algorithm", "kind"), KINDS)
def test_the_checksum_of_a_part_must_be_that_of_the_part(place: Place, algorithm: str, kind: str) -> None:
    upload = Upload(place, algorithm, kind)
    wrong = [*upload.parts[:2], upload.parts[2] | {f"Checksum{algorithm}": text(upload.digest(b"x"))}]
    assert upload.refusal(parts=wrong) == "InvalidPart"
    upload.complete()


def test_the_size_that_is_expected_must_be_the_objects(place: Place) -> None:
    upload = Upload(place, "CRC32", "FULL_OBJECT")
    size = sum(map(len, PARTS))
    assert upload.refusal(MpuObjectSize=size - 1) == "InvalidRequest"
    upload.complete(MpuObjectSize=size)
    assert upload.s3.head_object(**upload.where)["ContentLength"] == size


@pytest.mark.parametrize(("algorithm", "kind"), KINDS)
def test_a_list_of_parts_shows_their_checksums(place: Place, algorithm: str, kind: str) -> None:
    upload = Upload(place, algorithm, kind)
    field = f"Checksum{algorithm}"
    listed = upload.s3.list_parts(**upload.where_open)
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (algorithm, kind)
    assert [(part["ETag"], part[field]) for part in listed["Parts"]] == [
        (part["ETag"], part[field]) for part in upload.parts
    ]
    again = upload.put(3, b"another end")
    listed = upload.s3.list_parts(**upload.where_open, PartNumberMarker=2)
    assert (again["ETag"], again[field]) in [(part["ETag"], part[field]) for part in listed["Parts"]]
    upload.complete(parts=[*upload.parts[:2], again])


def test_parts_that_were_copied_have_checksums_too(place: Place) -> None:
    source = {"Bucket": place.bucket, "Key": place.fresh("source")}
    place.s3.put_object(**source, Body=b"copied")
    where = {"Bucket": place.bucket, "Key": place.fresh("copied")}
    upload = place.s3.create_multipart_upload(**where, ChecksumAlgorithm="SHA256")["UploadId"]
    place.s3.upload_part_copy(**where, UploadId=upload, PartNumber=1, CopySource=source)
    (part,) = place.s3.list_parts(**where, UploadId=upload)["Parts"]
    assert part["ChecksumSHA256"] == text(sha256(b"copied"))
    place.s3.abort_multipart_upload(**where, UploadId=upload)


@pytest.mark.parametrize(("algorithm", "kind"), KINDS)
def test_attributes_show_the_checksum_of_an_upload(place: Place, algorithm: str, kind: str) -> None:
    upload = Upload(place, algorithm, kind)
    made = upload.complete()
    shown = upload.s3.get_object_attributes(**upload.where, ObjectAttributes=ATTRIBUTES)
    field = f"Checksum{algorithm}"
    assert shown["Checksum"] == {field: made[field], "ChecksumType": kind}
    assert shown["ETag"] == made["ETag"].strip('"')
    assert shown["ObjectSize"] == sum(map(len, PARTS))
    assert shown["StorageClass"] == "STANDARD"
    assert shown["ObjectParts"]["TotalPartsCount"] == 3
    assert [part["Size"] for part in shown["ObjectParts"]["Parts"]] == list(map(len, PARTS))


def test_attributes_show_the_checksum_of_an_object_in_one_piece(place: Place) -> None:
    where = {"Bucket": place.bucket, "Key": place.fresh("whole")}
    place.s3.put_object(**where, Body=b"whole", ChecksumAlgorithm="SHA256")
    shown = place.s3.get_object_attributes(**where, ObjectAttributes=["Checksum", "ETag"])
    assert shown["Checksum"] == {"ChecksumSHA256": text(sha256(b"whole")), "ChecksumType": "FULL_OBJECT"}
    assert shown["ETag"] == hashlib.md5(b"whole").hexdigest()
    assert "ObjectSize" not in shown
    assert "Checksum" not in place.s3.get_object_attributes(**where, ObjectAttributes=["ETag"])


def test_notes_of_uploads_go_when_the_upload_ends(make_service: Callable[..., RunningService]) -> None:
    place = Place(make_service(gateway__processes=1), "noted", "noted-bucket")
    completed, aborted = (Upload(place, "CRC32", "COMPOSITE") for _ in range(2))
    completed.complete()
    aborted.s3.abort_multipart_upload(**aborted.where_open)
    assert place.service.stop() == 0
    settings = settings_module.restore((place.service.data / "run" / "settings.json").read_text())
    with closing(open_tables(settings, place.service.data)) as tables:
        assert tables.scan("uc:") == [] == tables.scan("up:")


def test_a_completion_without_parts_is_malformed(place: Place) -> None:
    upload = Upload(place, "CRC32", "COMPOSITE")
    path = place.path(upload.where["Key"], f"uploadId={upload.where_open['UploadId']}")
    for body in (b"", b"<CompleteMultipartUpload/>"):
        answer = place.ask("POST", path, body)
        assert (answer.status, answer.code) == (400, "MalformedXML")
    upload.complete()
