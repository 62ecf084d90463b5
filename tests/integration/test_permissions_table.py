"""Who may do what: key policy × bucket policy × operation, each cell asked of the running gateway.

What is expected stands in the tables below and is not taken from the package.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from running_service import RunningService

READ, WRITE, BOTH = "read", "write", "read and write"
BUCKET_POLICIES = ("none", "upload", "download", "public")
KEY_POLICIES = ("readwrite", "readonly", "writeonly")
DELETE_BODY = b"<Delete><Object><Key>present</Key></Object></Delete>"
TAGS_BODY = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
# Who may put rules is told that these are none.
NO_RULES = b"<ReplicationConfiguration><Role>r</Role></ReplicationConfiguration>"
VERSIONING_BODY = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"


@dataclass(frozen=True)
class Operation:
    """`{upload}` in the query stands for an upload id and `{bucket}` in headers for the bucket;
    `open_to_all` tells what a bucket policy can allow without a key."""

    name: str
    needs: str
    method: str
    key: str = ""
    query: str = ""
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    success: int = 200
    open_to_all: bool = True


OWNERS_ACL = (("x-amz-acl", "private"),)
COPY_SOURCE = (("x-amz-copy-source", "/{bucket}/present"),)
DELETE_MD5 = (("Content-MD5", base64.b64encode(hashlib.md5(DELETE_BODY, usedforsecurity=False).digest()).decode()),)
OPERATIONS = (
    Operation("GetObject", READ, "GET", "present"),
    Operation("GetObject of a range", READ, "GET", "present", headers=(("Range", "bytes=0-0"),), success=206),
    Operation("GetObject of a version", READ, "GET", "present", "versionId=null"),
    Operation("HeadObject", READ, "HEAD", "present"),
    Operation("GetObjectTagging", READ, "GET", "present", "tagging="),
    Operation("ListObjects", READ, "GET"),
    Operation("ListObjectsV2", READ, "GET", query="list-type=2"),
    Operation("ListObjectVersions", READ, "GET", query="versions="),
    Operation("HeadBucket", READ, "HEAD"),
    Operation("GetBucketLocation", READ, "GET", query="location=", open_to_all=False),
    Operation("GetBucketVersioning", READ, "GET", query="versioning=", open_to_all=False),
    Operation("GetBucketAcl", READ, "GET", query="acl=", open_to_all=False),
    Operation("GetBucketLogging", READ, "GET", query="logging=", open_to_all=False),
    Operation("GetObjectAcl", READ, "GET", "present", "acl=", open_to_all=False),
    Operation("PutObject", WRITE, "PUT", "new", body=b"new"),
    Operation("PutObject over another", WRITE, "PUT", "present", body=b"present"),
    Operation("DeleteObject", WRITE, "DELETE", "present", success=204),
    Operation("DeleteObject of a version", WRITE, "DELETE", "present", "versionId=null", success=204),
    Operation("DeleteObjects", WRITE, "POST", query="delete=", body=DELETE_BODY, headers=DELETE_MD5),
    Operation("CreateMultipartUpload", WRITE, "POST", "big", "uploads="),
    Operation("UploadPart", WRITE, "PUT", "big", "partNumber=1&uploadId={upload}", b"part"),
    Operation("ListParts", WRITE, "GET", "big", "uploadId={upload}"),
    Operation("ListMultipartUploads", WRITE, "GET", query="uploads="),
    Operation("CompleteMultipartUpload", WRITE, "POST", "big", "uploadId={upload}", b"{complete}"),
    Operation("AbortMultipartUpload", WRITE, "DELETE", "big", "uploadId={upload}", success=204),
    Operation("PutObjectTagging", WRITE, "PUT", "present", "tagging=", TAGS_BODY),
    Operation("DeleteObjectTagging", WRITE, "DELETE", "present", "tagging=", success=204),
    Operation("PutBucketVersioning", WRITE, "PUT", query="versioning=", body=VERSIONING_BODY, open_to_all=False),
    Operation("PutBucketAcl", WRITE, "PUT", query="acl=", headers=OWNERS_ACL, open_to_all=False),
    Operation("PutObjectAcl", WRITE, "PUT", "present", "acl=", headers=OWNERS_ACL, open_to_all=False),
    Operation("CreateBucket again", WRITE, "PUT", success=409, open_to_all=False),
    Operation("CopyObject", BOTH, "PUT", "copy", headers=COPY_SOURCE),
    Operation("GetBucketReplication", READ, "GET", query="replication=", success=404, open_to_all=False),
    Operation("PutBucketReplication", BOTH, "PUT", query="replication=", body=NO_RULES, success=400, open_to_all=False),
    Operation("DeleteBucketReplication", BOTH, "DELETE", query="replication=", success=204, open_to_all=False),
    Operation("UploadPartCopy", BOTH, "PUT", "big", "partNumber=2&uploadId={upload}", headers=COPY_SOURCE),
)

KEY_MAY = {
    "readwrite": {READ: True, WRITE: True, BOTH: True},
    "readonly": {READ: True, WRITE: False, BOTH: False},
    "writeonly": {READ: False, WRITE: True, BOTH: False},
}
ALL_MAY = {
    "none": {READ: False, WRITE: False, BOTH: False},
    "upload": {READ: False, WRITE: True, BOTH: False},
    "download": {READ: True, WRITE: False, BOTH: False},
    "public": {READ: True, WRITE: True, BOTH: True},
}

Key = tuple[str, str]


class Door:
    """Sends one request and tells the status. Without a key the request is anonymous."""

    def __init__(self, endpoint: str) -> None:
        self.address = urlsplit(endpoint).netloc
        self._connection = http.client.HTTPConnection(self.address, timeout=60)

    def ask(
        self, key: Key | None, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        digest = hashlib.sha256(body).hexdigest()
        request = AWSRequest(
            method,
            f"http://{self.address}{path}",
            headers={**(headers or {}), "X-Amz-Content-SHA256": digest},
            data=body,
        )
        if key:
            S3SigV4Auth(Credentials(*key), "s3", "us-east-1").add_auth(request)
        self._connection.request(method, path, body or None, dict(request.headers))
        response = self._connection.getresponse()
        return response.status, response.read()

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True)
class Pools:
    door: Door
    keys: dict[str, Key]  # of the first pool, by policy
    foreign: Key
    buckets: dict[str, str]  # of the first pool, by policy


@pytest.fixture(scope="module")
def pools(service: RunningService) -> Iterator[Pools]:
    first, second = service.create_pool("table-one"), service.create_pool("table-two")
    keys = {policy: service.create_key(first.pool, "--policy", policy) for policy in KEY_POLICIES}
    buckets = {policy: f"table-{policy}" for policy in BUCKET_POLICIES}
    for policy, name in buckets.items():
        service.cli("bucket", "create", name, "--pool", first.pool, "--policy", policy)
    door = Door(service.s3_url)
    yield Pools(
        door,
        {policy: (key.access_key, key.secret_key) for policy, key in keys.items()},
        (second.access_key, second.secret_key),
        buckets,
    )
    door.close()


def prepared(pools: Pools, bucket: str, operation: Operation) -> tuple[str, bytes, dict[str, str]]:
    """Makes what the operation needs, with the key that may do everything; returns path, body and headers."""
    key, door = pools.keys["readwrite"], pools.door
    status, answer = door.ask(key, "PUT", f"/{bucket}/present", b"present")
    assert status == 200, answer
    query, body = operation.query, operation.body
    if "{upload}" in query:
        status, answer = door.ask(key, "POST", f"/{bucket}/big?uploads=")
        found = re.search(rb"<UploadId>([^<]+)</UploadId>", answer)
        assert status == 200 and found, answer
        query = query.replace("{upload}", found[1].decode())
        if body == b"{complete}":
            status, _ = door.ask(key, "PUT", f"/{bucket}/big?partNumber=1&uploadId={found[1].decode()}", b"part")
            assert status == 200
            etag = hashlib.md5(b"part", usedforsecurity=False).hexdigest().encode()
            body = (
                b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + etag + b"</ETag></Part>"
                b"</CompleteMultipartUpload>"
            )
    path = f"/{bucket}" + (f"/{operation.key}" if operation.key else "") + (f"?{query}" if query else "")
    return path, body, {name: value.replace("{bucket}", bucket) for name, value in operation.headers}


def status_of(pools: Pools, key: Key | None, bucket: str, operation: Operation) -> int:
    path, body, headers = prepared(pools, bucket, operation)
    return pools.door.ask(key, operation.method, path, body, headers)[0]


@pytest.mark.parametrize("bucket_policy", BUCKET_POLICIES)
@pytest.mark.parametrize("key_policy", KEY_POLICIES)
def test_with_a_key_of_the_pool_the_key_policy_alone_decides(pools: Pools, key_policy: str, bucket_policy: str) -> None:
    bucket = pools.buckets[bucket_policy]
    found = {one.name: status_of(pools, pools.keys[key_policy], bucket, one) for one in OPERATIONS}
    assert found == {one.name: one.success if KEY_MAY[key_policy][one.needs] else 403 for one in OPERATIONS}


@pytest.mark.parametrize("bucket_policy", BUCKET_POLICIES)
def test_without_a_key_the_bucket_policy_alone_decides(pools: Pools, bucket_policy: str) -> None:
    bucket = pools.buckets[bucket_policy]
    found = {one.name: status_of(pools, None, bucket, one) for one in OPERATIONS}
    assert found == {
        one.name: one.success if one.open_to_all and ALL_MAY[bucket_policy][one.needs] else 403 for one in OPERATIONS
    }


@pytest.mark.parametrize("bucket_policy", BUCKET_POLICIES)
@pytest.mark.parametrize("who", ["key of another pool", "unknown key", "wrong secret"])
def test_a_foreign_or_bad_key_is_refused_even_on_a_public_bucket(pools: Pools, who: str, bucket_policy: str) -> None:
    key = {
        "key of another pool": pools.foreign,
        "unknown key": ("NOSUCHKEY0123456789", "secret"),
        "wrong secret": (pools.keys["readwrite"][0], "wrong"),
    }[who]
    bucket = pools.buckets[bucket_policy]
    found = {one.name: status_of(pools, key, bucket, one) for one in OPERATIONS}
    expected = {one.name: 403 for one in OPERATIONS}
    if who == "key of another pool":
        expected["CreateBucket again"] = 409  # the name is taken, and that is no secret
    assert found == expected


@pytest.mark.parametrize("who", [*KEY_POLICIES, "anonymous"])
def test_an_unknown_bucket_is_not_found_by_whoever_may_ask(pools: Pools, who: str) -> None:
    key = None if who == "anonymous" else pools.keys[who]
    asked = [
        one for one in OPERATIONS if not one.name.startswith("CreateBucket") and "{" not in one.query + str(one.body)
    ]
    found = {one.name: _status_in_unknown_bucket(pools, key, one) for one in asked}
    assert found == {one.name: 404 for one in asked}


def _status_in_unknown_bucket(pools: Pools, key: Key | None, one: Operation) -> int:
    path = "/no-such-bucket" + (f"/{one.key}" if one.key else "") + (f"?{one.query}" if one.query else "")
    headers = {name: value.replace("{bucket}", "no-such-bucket") for name, value in one.headers}
    return pools.door.ask(key, one.method, path, one.body, headers)[0]


@pytest.mark.parametrize(
    ("who", "status"), [("readwrite", 200), ("readonly", 200), ("writeonly", 403), ("anonymous", 403), ("unknown", 403)]
)
def test_list_buckets_needs_a_key_that_reads(pools: Pools, who: str, status: int) -> None:
    key = {**pools.keys, "anonymous": None, "unknown": ("NOSUCHKEY0123456789", "secret")}[who]
    assert pools.door.ask(key, "GET", "/")[0] == status


def test_list_buckets_names_only_the_buckets_of_the_keys_pool(pools: Pools) -> None:
    own = pools.door.ask(pools.keys["readwrite"], "GET", "/")[1]
    foreign = pools.door.ask(pools.foreign, "GET", "/")[1]
    assert set(re.findall(r"<Name>([^<]+)</Name>", own.decode())) == set(pools.buckets.values())
    assert re.findall(r"<Name>([^<]+)</Name>", foreign.decode()) == []


@pytest.mark.parametrize(
    ("who", "status"), [("readwrite", 200), ("readonly", 403), ("writeonly", 200), ("anonymous", 403)]
)
def test_create_and_delete_bucket_need_a_key_that_writes(pools: Pools, who: str, status: int) -> None:
    key = None if who == "anonymous" else pools.keys[who]
    name = f"/table-made-by-{who}"
    assert pools.door.ask(key, "PUT", name)[0] == status
    if status != 200:
        assert pools.door.ask(pools.keys["readwrite"], "PUT", name)[0] == 200
    assert pools.door.ask(key, "DELETE", name)[0] == (204 if status == 200 else 403)


def test_a_copy_does_not_reach_into_another_pools_bucket(pools: Pools) -> None:
    door = pools.door
    own, source = "/table-copy-target", f"/{pools.buckets['public']}/present"
    assert door.ask(pools.keys["readwrite"], "PUT", source, b"present")[0] == 200
    assert door.ask(pools.foreign, "PUT", own)[0] == 200
    assert door.ask(pools.foreign, "PUT", f"{own}/copy", headers={"x-amz-copy-source": source})[0] == 403
    assert door.ask(pools.foreign, "GET", f"{own}/copy")[0] == 404
    assert door.ask(pools.foreign, "DELETE", own)[0] == 204
