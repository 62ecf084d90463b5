"""Keys and policies in the words of SeaweedFS's configuration file.

Reading the file again adds and replaces identities by name and never drops one. So there is one identity
per policy, always the same four and `anonymous`, and a key is a credential of one of them: a deleted key is
simply no longer listed. They all share one account, so that everything in the pool has one owner.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

from tidegate.core.records import BucketPolicy, KeyPolicy
from tidegate.pools.backends.base import BucketGrant, Setup

_ACCOUNT = "pool"
_EVERYTHING = ["arn:aws:s3:::*"]

_READ = ["s3:Get*", "s3:ListBucket", "s3:ListBucketVersions", "s3:ListAllMyBuckets"]
_WRITE = [
    "s3:Put*",
    "s3:Delete*",
    "s3:CreateBucket",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
    "s3:ListBucketMultipartUploads",
]
# Without a key only objects are within reach, never the settings of a bucket.
_READ_BY_ALL = [
    "s3:GetObject",
    "s3:GetObjectVersion",
    "s3:GetObjectAttributes",
    "s3:GetObjectVersionAttributes",
    "s3:GetObjectTagging",
    "s3:GetObjectVersionTagging",
    "s3:ListBucket",
    "s3:ListBucketVersions",
]
_WRITE_BY_ALL = [
    "s3:PutObject",
    "s3:PutObjectTagging",
    "s3:PutObjectVersionTagging",
    "s3:DeleteObject",
    "s3:DeleteObjectVersion",
    "s3:DeleteObjectTagging",
    "s3:DeleteObjectVersionTagging",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
    "s3:ListBucketMultipartUploads",
]
_BY_ALL = {
    BucketPolicy.DOWNLOAD: _READ_BY_ALL,
    BucketPolicy.UPLOAD: _WRITE_BY_ALL,
    BucketPolicy.PUBLIC: _READ_BY_ALL + _WRITE_BY_ALL,
}


@dataclass(frozen=True, slots=True)
class Administrator:
    """A credential that may do everything."""

    access_key: str
    secret: str

    @classmethod
    def random(cls) -> Administrator:
        return cls(secrets.token_hex(10).upper(), secrets.token_hex(20))


def nobody_but(administrator: Administrator) -> bytes:
    return rights(administrator, Setup(keys=(), buckets=()))


def rights(administrator: Administrator, setup: Setup) -> bytes:
    """The configuration file."""
    credentials: dict[str, list[dict[str, str]]] = {str(policy): [] for policy in KeyPolicy}
    for key in setup.keys:
        credentials[key.policy].append({"accessKey": key.access_key, "secretKey": key.secret})
    to_all = [_to_all(bucket) for bucket in setup.buckets if bucket.policy != BucketPolicy.NONE]
    identities: list[dict[str, Any]] = [
        _identity("administrator", [_credential(administrator)], actions=["Admin"]),
        _identity("readwrite", credentials["readwrite"], actions=["Admin"]),
        _identity("readonly", credentials["readonly"], policies=["readonly"]),
        _identity("writeonly", credentials["writeonly"], policies=["writeonly"]),
        {"name": "anonymous", "policyNames": ["anonymous"] if to_all else []},
    ]
    policies = [
        {"name": "readonly", "content": _policy([_allow(_READ, _EVERYTHING)])},
        {"name": "writeonly", "content": _policy([_allow(_WRITE, _EVERYTHING)])},
        *([{"name": "anonymous", "content": _policy(to_all)}] if to_all else []),
    ]
    accounts = [{"id": _ACCOUNT, "displayName": _ACCOUNT}]
    return json.dumps({"accounts": accounts, "identities": identities, "policies": policies}).encode()


def with_proof(content: bytes, proof: Administrator) -> bytes:
    """The same with a further credential for the administrator."""
    document = json.loads(content)
    document["identities"][0]["credentials"].append(_credential(proof))
    return json.dumps(document).encode()


def _identity(
    name: str, credentials: list[dict[str, str]], *, actions: list[str] | None = None, policies: list[str] | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "account": {"id": _ACCOUNT},
        "credentials": credentials,
        "actions": actions or [],
        "policyNames": policies or [],
    }


def _credential(administrator: Administrator) -> dict[str, str]:
    return {"accessKey": administrator.access_key, "secretKey": administrator.secret}


def _to_all(bucket: BucketGrant) -> dict[str, Any]:
    resources = [f"arn:aws:s3:::{bucket.name}", f"arn:aws:s3:::{bucket.name}/*"]
    return _allow(_BY_ALL[BucketPolicy(bucket.policy)], resources)


def _allow(actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources}


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
