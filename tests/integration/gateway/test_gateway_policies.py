"""Bucket policies put and deleted by S3's own clients: what is open before and after, who may change it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from places import Place
from replayed import all_events
from running_service import PoolKey

from tidegate.core.events import EventKind

BUCKET = "policies"
READ = (["s3:GetBucketLocation", "s3:ListBucket"], ["s3:GetObject"])
WRITE = (
    ["s3:GetBucketLocation", "s3:ListBucketMultipartUploads"],
    ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListMultipartUploadParts", "s3:PutObject"],
)
GRANTED = {"download": READ, "upload": WRITE, "public": tuple(a + b for a, b in zip(READ, WRITE, strict=True))}
MAY = {"none": (403, 403, 403), "download": (200, 200, 403), "upload": (403, 403, 200), "public": (200, 200, 200)}


def statement(actions: Any, resource: str, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": actions, "Resource": [resource]} | more


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def written_by_mc(policy: str, bucket: str = BUCKET) -> str:
    of_bucket, of_objects = GRANTED[policy]
    arn = f"arn:aws:s3:::{bucket}"
    return document(statement(of_bucket, arn), statement(of_objects, f"{arn}/*"))


@pytest.fixture(scope="module")
def bucket(place: Place) -> str:
    place.s3.create_bucket(Bucket=BUCKET)
    place.s3.put_object(Bucket=BUCKET, Key="there", Body=b"there")
    return BUCKET


@pytest.fixture(autouse=True)
def _closed(place: Place, bucket: str) -> Iterator[None]:
    place.s3.delete_bucket_policy(Bucket=bucket)
    yield
    place.s3.delete_bucket_policy(Bucket=bucket)


def client(place: Place, key: PoolKey | None) -> Any:
    return place.service.s3(key)


def code_of(client: Any, method: str, **given: Any) -> str:
    try:
        getattr(client, method)(**given)
    except client.exceptions.ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def without_a_key(place: Place) -> tuple[int, int, int]:
    """The status of a read, a list and a write, each on a connection of its own: any gateway may answer."""
    return (
        place.anonymous("GET", f"/{BUCKET}/there").status,
        place.anonymous("GET", f"/{BUCKET}").status,
        place.anonymous("PUT", f"/{BUCKET}/new", b"new").status,
    )


def kept_policy(place: Place) -> str:
    with place.service.api() as api:
        return str(api.get(f"/api/v1/buckets/{BUCKET}").raise_for_status().json()["policy"])


def keep_policy(place: Place, policy: str) -> None:
    with place.service.api() as api:
        api.put(f"/api/v1/buckets/{BUCKET}/policy", json={"policy": policy}).raise_for_status()


@pytest.mark.parametrize("policy", GRANTED)
def test_a_policy_opens_the_bucket_and_its_deletion_closes_it_with_the_next_request(place: Place, policy: str) -> None:
    for _ in range(5):
        assert without_a_key(place) == MAY["none"]
        place.s3.put_bucket_policy(Bucket=BUCKET, Policy=written_by_mc(policy))
        assert [without_a_key(place) for _ in range(3)] == [MAY[policy]] * 3
        place.s3.delete_bucket_policy(Bucket=BUCKET)
    assert without_a_key(place) == MAY["none"]


def test_each_policy_takes_the_place_of_any_other(place: Place) -> None:
    for policy in ("download", "upload", "public", "download", "public", "upload", "upload"):
        place.s3.put_bucket_policy(Bucket=BUCKET, Policy=written_by_mc(policy))
        assert (kept_policy(place), without_a_key(place)) == (policy, MAY[policy])


@pytest.mark.parametrize("policy", GRANTED)
def test_the_policy_is_shown_as_it_can_be_put_however_it_was_set(place: Place, policy: str) -> None:
    keep_policy(place, policy)
    answer = place.s3.get_bucket_policy(Bucket=BUCKET)
    assert answer["ResponseMetadata"]["HTTPHeaders"]["content-type"] == "application/json"
    shown, expected = json.loads(answer["Policy"]), json.loads(written_by_mc(policy))
    for one in (*shown["Statement"], *expected["Statement"]):
        one["Action"] = sorted(set(one["Action"]))
    assert shown == expected
    assert place.s3.get_bucket_policy_status(Bucket=BUCKET)["PolicyStatus"] == {"IsPublic": True}
    place.s3.delete_bucket_policy(Bucket=BUCKET)
    place.s3.put_bucket_policy(Bucket=BUCKET, Policy=answer["Policy"])
    assert kept_policy(place) == policy


def test_without_a_policy_there_is_none_to_show_and_deleting_it_is_no_error(place: Place) -> None:
    assert code_of(place.s3, "get_bucket_policy", Bucket=BUCKET) == "NoSuchBucketPolicy"
    assert code_of(place.s3, "get_bucket_policy_status", Bucket=BUCKET) == "NoSuchBucketPolicy"
    assert place.s3.delete_bucket_policy(Bucket=BUCKET)["ResponseMetadata"]["HTTPStatusCode"] == 204


@pytest.mark.parametrize("before", ["none", "upload"])
@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (document(statement("s3:GetObject", f"arn:aws:s3:::{BUCKET}/*", Principal="*")), "NotImplemented"),
        (document(statement(["s3:*"], f"arn:aws:s3:::{BUCKET}/*")), "NotImplemented"),
        (document(statement(["s3:GetObject"], f"arn:aws:s3:::{BUCKET}/public/*")), "NotImplemented"),
        (document(statement(["s3:GetObject"], f"arn:aws:s3:::{BUCKET}/*", Effect="Deny")), "NotImplemented"),
        (document(statement(["s3:GetObject"], f"arn:aws:s3:::{BUCKET}/*", Condition={"a": 1})), "NotImplemented"),
        (document(statement(["s3:GetObject"], f"arn:aws:s3:::{BUCKET}/*", Principal={"AWS": "1"})), "NotImplemented"),
        (written_by_mc("public", "gateway-bucket"), "MalformedPolicy"),
        (document(), "MalformedPolicy"),
        ("{", "MalformedPolicy"),
        (json.dumps({"Statement": "x" * 21000}), "MaxMessageLengthExceeded"),
    ],
)
def test_a_document_that_means_something_else_changes_nothing(
    place: Place, policy: str, code: str, before: str
) -> None:
    keep_policy(place, before)
    assert code_of(place.s3, "put_bucket_policy", Bucket=BUCKET, Policy=policy) == code
    assert (kept_policy(place), without_a_key(place)) == (before, MAY[before])


def test_the_reason_of_a_refusal_names_what_would_be_opened_unasked(place: Place) -> None:
    public_read = document(statement("s3:GetObject", f"arn:aws:s3:::{BUCKET}/*", Principal="*"))
    with pytest.raises(place.s3.exceptions.ClientError, match="download, would also allow s3:ListBucket"):
        place.s3.put_bucket_policy(Bucket=BUCKET, Policy=public_read)


def test_only_a_readwrite_key_of_the_pool_may_change_a_policy(place: Place) -> None:
    service = place.service
    reader = service.create_key(place.key.pool, "--policy", "readonly")
    writer = service.create_key(place.key.pool, "--policy", "writeonly")
    rival = service.create_pool("policy-rival")
    place.s3.put_bucket_policy(Bucket=BUCKET, Policy=written_by_mc("download"))
    for key in (reader, writer, rival, None):
        other = client(place, key)
        assert code_of(other, "put_bucket_policy", Bucket=BUCKET, Policy=written_by_mc("public")) == "AccessDenied"
        assert code_of(other, "delete_bucket_policy", Bucket=BUCKET) == "AccessDenied"
        shown = "" if key is reader else "AccessDenied"
        assert code_of(other, "get_bucket_policy", Bucket=BUCKET) == shown
        assert code_of(other, "get_bucket_policy_status", Bucket=BUCKET) == shown
    assert kept_policy(place) == "download"
    nowhere = {"Bucket": "policies-nowhere"}
    assert code_of(place.s3, "put_bucket_policy", **nowhere, Policy=written_by_mc("public")) == "NoSuchBucket"
    assert code_of(place.s3, "delete_bucket_policy", **nowhere) == "NoSuchBucket"


def test_changes_of_a_policy_are_events_of_the_log(place: Place) -> None:
    place.s3.put_bucket_policy(Bucket=BUCKET, Policy=written_by_mc("download"))
    code_of(place.s3, "put_bucket_policy", Bucket=BUCKET, Policy="{}")
    place.s3.delete_bucket_policy(Bucket=BUCKET)
    events = [event for event in all_events(place.service) if event.bucket == BUCKET]
    last = events[-2:]
    assert [event.operation for event in last] == [EventKind.BUCKET_ATTRIBUTES] * 2
    assert [event.attributes for event in last] == [(("policy", "download"),), (("policy", "none"),)]
