"""Objects encrypted with their clients' keys; encryption that a store cannot do is refused at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from places import Place
from raw_http import until
from replayed import all_events, left_open
from replayed_events import Version, replay

KEY = os.urandom(32)
CUSTOMER = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": KEY}
SOURCE = {"CopySourceSSECustomerAlgorithm": "AES256", "CopySourceSSECustomerKey": KEY}
PARTS = [b"a" * (5 << 20), b"the end"]


@pytest.fixture(params=["Off", "Enabled", "Suspended"])
def bucket(place: Place, fresh_name: Callable[[str], str], request: pytest.FixtureRequest) -> str:
    name = fresh_name("encrypted")
    place.s3.create_bucket(Bucket=name)
    if request.param != "Off":
        place.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": request.param})
    return name


def logged(place: Place, bucket: str) -> dict[str, Version]:
    """What the metadata log says that the bucket holds; nothing is left in doubt."""
    until(lambda: not [intent for intent in left_open(place.service) if intent.bucket == bucket])
    return replay(all_events(place.service))[bucket].objects()


def upload(place: Place, where: dict[str, str], **at_completion: Any) -> dict[str, Any]:
    made = place.s3.create_multipart_upload(**where, **CUSTOMER, Tagging="a=b")
    open_upload = where | {"UploadId": made["UploadId"]}
    parts = [
        {"PartNumber": n, "ETag": place.s3.upload_part(**open_upload, PartNumber=n, Body=data, **CUSTOMER)["ETag"]}
        for n, data in enumerate(PARTS, 1)
    ]
    completed: dict[str, Any] = place.s3.complete_multipart_upload(
        **open_upload, MultipartUpload={"Parts": parts}, **at_completion
    )
    return completed


@pytest.mark.parametrize("at_completion", [{}, CUSTOMER], ids=["without the key", "with the key"])
def test_an_encrypted_upload_in_parts_is_completed(place: Place, bucket: str, at_completion: dict[str, Any]) -> None:
    where = {"Bucket": bucket, "Key": "parts/ü"}
    made = upload(place, where, **at_completion)
    shown = place.s3.get_object(**where, **CUSTOMER)
    assert shown["Body"].read() == b"".join(PARTS)
    assert shown["ETag"] == made["ETag"]
    event = logged(place, bucket)["parts/ü"]
    assert (event.etag, event.size) == (made["ETag"].strip('"'), sum(map(len, PARTS)))
    assert event.tags == (("a", "b"),)


def test_encrypted_objects_are_written_read_and_copied(place: Place, bucket: str) -> None:
    where = {"Bucket": bucket, "Key": "one"}
    place.s3.put_object(**where, Body=b"secret", **CUSTOMER)
    assert place.s3.head_object(**where, **CUSTOMER)["ContentLength"] == 6
    assert place.s3.get_object(**where, **CUSTOMER, Range="bytes=1-2")["Body"].read() == b"ec"
    for refused in ({}, {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": os.urandom(32)}):
        with pytest.raises(ClientError) as error:
            place.s3.get_object(**where, **refused)
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 403)
    place.s3.copy_object(Bucket=bucket, Key="again", CopySource=where, **SOURCE, **CUSTOMER)
    assert place.s3.get_object(Bucket=bucket, Key="again", **CUSTOMER)["Body"].read() == b"secret"
    place.s3.copy_object(Bucket=bucket, Key="open", CopySource=where, **SOURCE)
    assert place.s3.get_object(Bucket=bucket, Key="open")["Body"].read() == b"secret"
    place.s3.copy_object(Bucket=bucket, Key="closed", CopySource={"Bucket": bucket, "Key": "open"}, **CUSTOMER)
    assert place.s3.get_object(Bucket=bucket, Key="closed", **CUSTOMER)["Body"].read() == b"secret"
    found = logged(place, bucket)
    assert {key: event.size for key, event in found.items()} == dict.fromkeys(("one", "again", "open", "closed"), 6)


def test_conditional_deletes_see_encrypted_objects(place: Place, bucket: str) -> None:
    where = {"Bucket": bucket, "Key": "one"}
    place.s3.put_object(**where, Body=b"secret", **CUSTOMER)
    with pytest.raises(ClientError) as error:
        place.s3.delete_object(**where, IfMatchSize=5)
    assert error.value.response["Error"]["Code"] == "PreconditionFailed"
    place.s3.delete_object(**where, IfMatchSize=6)
    with pytest.raises(ClientError) as error:
        place.s3.head_object(**where, **CUSTOMER)
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-server-side-encryption": "AES256"},
        {"x-amz-server-side-encryption": "aws:kms"},
        {"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-aws-kms-key-id": "k"},
        {"x-amz-server-side-encryption": "aws:kms:dsse"},
        {"x-amz-server-side-encryption": ""},
        {"x-amz-server-side-encryption-aws-kms-key-id": "k"},
        {"x-amz-server-side-encryption-bucket-key-enabled": "true"},
    ],
)
def test_encryption_that_the_store_cannot_do_is_refused(place: Place, headers: dict[str, str]) -> None:
    source, key = place.fresh("plain"), place.fresh("kms")
    place.s3.put_object(Bucket=place.bucket, Key=source, Body=b"x")
    copy = headers | {"x-amz-copy-source": f"/{place.bucket}/{source}"}
    for answer in (
        place.ask("PUT", place.path(key), b"data", headers=headers),
        place.ask("PUT", place.path(key), headers=copy),
        place.ask("POST", place.path(key, "uploads="), headers=headers),
    ):
        assert (answer.status, answer.code) == (501, "NotImplemented")
    assert place.stored(key) is None
    uploads = place.s3.list_multipart_uploads(Bucket=place.bucket, Prefix=key)
    assert "Uploads" not in uploads
