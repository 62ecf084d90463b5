"""What a request means is decided once, at the gateway: the store cannot read anything else into it."""

from __future__ import annotations

import base64
import hashlib
import threading
import zlib
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from places import Place
from raw_http import Answer, Wire, request
from running_service import RunningService

from tidegate.core.sigv4 import STREAMING_UNSIGNED_TRAILER

TAGS = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"


def ask_with_semicolon(place: Place, method: str, key: str, query: str, body: bytes = b"") -> Answer:
    """The signature is the same whether the semicolon is escaped or not."""
    signed = place.request(method, place.path(key, query.replace(";", "%3B")), body)
    with place.wire() as wire:
        return wire.ask(signed.replace(b"%3B", b";", 1))


@pytest.mark.parametrize(
    "query",
    ["x;tagging=", "x;retention=", "x;legal-hold=", "x;acl=", "x;renameObject=", "x;uploads=", "x=1;tagging"],
)
def test_a_semicolon_does_not_turn_a_put_into_another_operation(place: Place, query: str) -> None:
    key = place.fresh("semicolon")
    answer = ask_with_semicolon(place, "PUT", key, query, TAGS)
    assert answer.status == 200, answer.body
    assert place.stored(key) == TAGS
    assert place.s3.get_object_tagging(Bucket=place.bucket, Key=key)["TagSet"] == []


def test_a_semicolon_does_not_let_a_delete_remove_something_else(place: Place) -> None:
    key = place.fresh("semicolon")
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x", Tagging="a=b")
    assert ask_with_semicolon(place, "DELETE", key, "x;tagging=").status == 204
    assert place.stored(key) is None, "a DELETE of an object is one, and was logged as one"


@pytest.mark.parametrize("dot", ["", "."])
@pytest.mark.parametrize("key", ["status", "healthz", "readyz", "a/b", "metrics"])
def test_a_virtual_hosted_key_is_a_key_whatever_its_name(place: Place, key: str, dot: str) -> None:
    port = urlsplit(place.url).port
    host = f"{place.bucket}.localhost{dot}:{port}"
    body = f"{key}{dot}".encode()
    assert place.ask("PUT", f"/{key}", body, host=host).status == 200
    assert place.ask("GET", f"/{key}", host=host).body == body
    assert place.stored(key) == body


def test_the_location_of_a_completed_upload_is_the_clients_address(place: Place) -> None:
    key = place.fresh("parts & more")
    upload = place.s3.create_multipart_upload(Bucket=place.bucket, Key=key)["UploadId"]
    part = place.s3.upload_part(Bucket=place.bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"x")
    done = place.s3.complete_multipart_upload(
        Bucket=place.bucket,
        Key=key,
        UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )
    assert done["Location"] == f"{place.url}/{place.bucket}/{key.replace(' ', '%20').replace('&', '%26')}"


def trailing(data: bytes, value: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\nx-amz-checksum-crc32:%b\r\n\r\n" % (len(data), data, value)


@pytest.mark.parametrize("size", [5, 3_000_000])
def test_a_trailing_checksum_is_checked_and_kept_with_the_object(place: Place, size: int) -> None:
    key, data = place.fresh("trailer"), b"t" * size
    crc = base64.b64encode(zlib.crc32(data).to_bytes(4, "big"))
    headers = {
        "x-amz-decoded-content-length": str(size),
        "x-amz-trailer": "x-amz-checksum-crc32",
        "Content-Encoding": "gzip,aws-chunked",
    }
    options = {"headers": headers, "payload": STREAMING_UNSIGNED_TRAILER}
    wrong = place.ask("PUT", place.path(key), trailing(data, b"AAAAAA=="), **options)
    assert (wrong.status, wrong.code, place.stored(key)) == (400, "BadDigest", None)
    assert place.ask("PUT", place.path(key), trailing(data, crc), **options).status == 200
    found = place.s3.get_object(Bucket=place.bucket, Key=key, ChecksumMode="ENABLED")
    assert found["ChecksumCRC32"] == crc.decode()
    assert found["ContentEncoding"] == "gzip", "aws-chunked was the request's, not the object's"
    assert found["Body"].read() == data


@pytest.mark.parametrize("size", [5, 3_000_000])
@pytest.mark.parametrize("header", ["Content-MD5", "x-amz-checksum-sha256"])
def test_a_digest_that_does_not_match_leaves_no_object(place: Place, size: int, header: str) -> None:
    key, data = place.fresh("digest"), b"d" * size
    kind = hashlib.md5 if header == "Content-MD5" else hashlib.sha256
    right = base64.b64encode(kind(data).digest()).decode()
    wrong = base64.b64encode(kind(b"other").digest()).decode()
    options = {"payload": "UNSIGNED-PAYLOAD"}
    refused = place.ask("PUT", place.path(key), data, headers={header: wrong}, **options)
    assert (refused.status, refused.code, place.stored(key)) == (400, "BadDigest", None)
    assert place.ask("PUT", place.path(key), data, headers={header: right}, **options).status == 200
    assert place.stored(key) == data


def test_only_a_readwrite_key_bypasses_a_governance_lock(service: RunningService, place: Place) -> None:
    writer = service.create_key(place.key.pool, "--policy", "writeonly")
    headers = {"x-amz-bypass-governance-retention": "true"}
    key = place.fresh("governed")
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    for signer, status in ((writer, 403), (None, 403), (place.key, 204)):
        with place.wire() as wire:
            asked = request(place.url, signer, "DELETE", place.path(key), headers=headers)
            assert wire.ask(asked).status == status


def test_nobody_locks_an_object_without_a_key(
    service: RunningService, place: Place, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("open-bucket")
    place.s3.create_bucket(Bucket=bucket)
    service.cli("bucket", "policy", bucket, "public")
    lock = {"x-amz-object-lock-mode": "COMPLIANCE", "x-amz-object-lock-retain-until-date": "2099-01-01T00:00:00Z"}
    assert place.anonymous("PUT", f"/{bucket}/k", b"x", headers=lock).code == "AccessDenied"
    assert place.anonymous("PUT", f"/{bucket}/k", b"x").status == 200
    assert place.anonymous("GET", f"/{bucket}/k?response-content-type=text/html").code == "InvalidRequest"


def test_a_retried_delete_never_takes_a_bucket_that_another_tenant_made_meanwhile(
    service: RunningService, fresh_name: Callable[[str], str]
) -> None:
    one, other = (service.create_pool(fresh_name("rival")) for _ in range(2))
    mine, theirs = (service.s3(key, retries=1) for key in (one, other))
    name = fresh_name("contested")

    def delete(times: int) -> None:
        for _ in range(times):
            with Wire(service.s3_url) as wire:
                wire.ask(request(service.s3_url, one, "DELETE", f"/{name}"))

    for _ in range(40):
        mine.create_bucket(Bucket=name)
        rivals = [threading.Thread(target=delete, args=(3,)) for _ in range(3)]
        for rival in rivals:
            rival.start()
        made = _made(theirs, name)
        for rival in rivals:
            rival.join()
        if made:
            theirs.put_object(Bucket=name, Key="theirs", Body=b"x")  # raises if the bucket vanished
            theirs.delete_object(Bucket=name, Key="theirs")
            theirs.delete_bucket(Bucket=name)
        else:
            _made(mine, name)
            mine.delete_bucket(Bucket=name)


def _made(s3: object, name: str) -> bool:
    """Tries for the name while it may become free."""
    for _ in range(40):
        try:
            s3.create_bucket(Bucket=name)  # type: ignore[attr-defined]
        except s3.exceptions.ClientError as refused:  # type: ignore[attr-defined]
            assert refused.response["Error"]["Code"].startswith("BucketAlready"), refused
        else:
            return True
    return False
