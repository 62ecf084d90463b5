"""Bucket policies as S3's clients write them: JSON documents, understood where they mean one of Tidegate's own.

A document is accepted only if the Tidegate policy that it comes to opens nothing that the document leaves closed. What
`download` and `upload` mean in S3's words is what `mc anonymous set` writes for them; the finer rights that belong to
these (versions, tags, attributes) may be named or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from tidegate.core.records import BucketPolicy
from tidegate.core.s3errors import S3Error

LARGEST_POLICY = 20 * 1024
_VERSIONS = ("2012-10-17", "2008-10-17")
_ARN = "arn:aws:s3:::"
_DOCUMENT_FIELDS = frozenset(("Version", "Id", "Statement"))
_STATEMENT_FIELDS = frozenset(("Sid", "Effect", "Principal", "Action", "Resource", "Condition"))
_NEGATIONS = ("NotAction", "NotPrincipal", "NotResource")

_Level = Literal["bucket", "object"]
_Right = Literal["read", "write"]


class _Action(NamedTuple):
    """`right` is what it belongs to. One that belongs to none is asked for by every client and given to nobody without
    a key; it would open nothing. `is_essential`: a document that asks for the right must ask for this."""

    name: str
    level: _Level
    right: _Right | None
    is_essential: bool = False


_ACTIONS = (
    _Action("s3:GetBucketLocation", "bucket", None),
    _Action("s3:ListBucket", "bucket", "read", is_essential=True),
    _Action("s3:ListBucketVersions", "bucket", "read"),
    _Action("s3:ListBucketMultipartUploads", "bucket", "write", is_essential=True),
    _Action("s3:GetObject", "object", "read", is_essential=True),
    _Action("s3:GetObjectVersion", "object", "read"),
    _Action("s3:GetObjectAttributes", "object", "read"),
    _Action("s3:GetObjectVersionAttributes", "object", "read"),
    _Action("s3:GetObjectTagging", "object", "read"),
    _Action("s3:GetObjectVersionTagging", "object", "read"),
    _Action("s3:AbortMultipartUpload", "object", "write", is_essential=True),
    _Action("s3:DeleteObject", "object", "write", is_essential=True),
    _Action("s3:ListMultipartUploadParts", "object", "write", is_essential=True),
    _Action("s3:PutObject", "object", "write", is_essential=True),
    _Action("s3:DeleteObjectVersion", "object", "write"),
    _Action("s3:PutObjectTagging", "object", "write"),
    _Action("s3:PutObjectVersionTagging", "object", "write"),
    _Action("s3:DeleteObjectTagging", "object", "write"),
    _Action("s3:DeleteObjectVersionTagging", "object", "write"),
)
# S3 does not look at the case of an action's name.
_BY_NAME = {action.name.lower(): action for action in _ACTIONS}
_RIGHTS: dict[BucketPolicy, frozenset[_Right]] = {
    BucketPolicy.DOWNLOAD: frozenset(("read",)),
    BucketPolicy.UPLOAD: frozenset(("write",)),
    BucketPolicy.PUBLIC: frozenset(("read", "write")),
}


def read_document(body: bytes) -> dict[str, Any]:
    """The JSON object of a PutBucketPolicy request. Raises `S3Error`."""
    try:
        document = json.loads(body.decode(), object_pairs_hook=_without_repetition, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"it cannot be read as JSON: {str(error)[:200]}") from None
    return _fields(document, _DOCUMENT_FIELDS, "the policy")


def meaning(document: dict[str, Any], bucket: str) -> BucketPolicy:
    """The policy that the document comes to. Raises `S3Error`: MalformedPolicy where S3 would refuse it, too, and
    NotImplemented where it means something that no bucket policy of Tidegate does."""
    if document.get("Version", _VERSIONS[1]) not in _VERSIONS:
        raise _malformed("Version must be 2012-10-17 or 2008-10-17")
    statements = document.get("Statement")
    if isinstance(statements, dict):
        statements = [statements]
    if not isinstance(statements, list) or not statements:
        raise _malformed("it must have at least one Statement")
    asked = {action for statement in statements for action in _granted(statement, bucket)}
    rights = {action.right for action in asked if action.right is not None}
    policy = next((policy for policy, given in _RIGHTS.items() if given == rights), None)
    if policy is None:
        raise _unsupported("it grants neither reading nor writing")
    missing = [action.name for action in _essential(policy) if action not in asked]
    if missing:
        raise _unsupported(
            f"the nearest, {policy}, would also allow {', '.join(missing)}, which the document does not ask for"
        )
    return policy


def document(policy: BucketPolicy, bucket: str) -> bytes:
    """What GetBucketPolicy shows of a policy other than none."""
    shown = [action for action in _ACTIONS if action.right is None or action in _essential(policy)]
    levels: tuple[tuple[_Level, str], ...] = (("bucket", bucket), ("object", f"{bucket}/*"))
    statements = [
        {
            "Effect": "Allow",
            "Principal": {"AWS": ["*"]},
            "Action": [action.name for action in shown if action.level == level],
            "Resource": [_ARN + resource],
        }
        for level, resource in levels
    ]
    return json.dumps({"Version": _VERSIONS[0], "Statement": statements}).encode()


def _essential(policy: BucketPolicy) -> list[_Action]:
    return [action for action in _ACTIONS if action.is_essential and action.right in _RIGHTS[policy]]


def _granted(statement: Any, bucket: str) -> Iterator[_Action]:
    if isinstance(statement, dict) and (negated := [name for name in _NEGATIONS if name in statement]):
        raise _unsupported(f"{negated[0]} cannot be expressed")
    fields = _fields(statement, _STATEMENT_FIELDS, "a statement")
    for name in ("Effect", "Principal", "Action", "Resource"):
        if name not in fields:
            raise _malformed(f"a statement must have {name}")
    if fields["Effect"] not in ("Allow", "Deny"):
        raise _malformed("Effect must be Allow or Deny")
    if fields["Effect"] == "Deny":
        raise _unsupported("Deny cannot be expressed")
    if fields.get("Condition", {}) != {}:
        raise _unsupported("conditions cannot be expressed")
    _check_principal(fields["Principal"])
    levels = {_level(resource, bucket) for resource in _strings(fields["Resource"], "Resource")}
    for name in _strings(fields["Action"], "Action"):
        action = _BY_NAME.get(name.lower())
        if not name.lower().startswith("s3:"):
            raise _malformed(f"{name[:100]} is no action of S3")
        if action is None:
            raise _unsupported(f"the action {name[:100]} cannot be granted without an access key")
        if action.level not in levels:
            raise _malformed(f"the action {action.name} does not apply to any resource of its statement")
        yield action


def _check_principal(principal: Any) -> None:
    if isinstance(principal, dict):
        if not principal:
            raise _malformed("Principal is empty")
        if set(principal) != {"AWS"}:
            raise _unsupported("the only principal is everybody (*)")
        principal = principal["AWS"]
    if _strings(principal, "Principal") != ["*"]:
        raise _unsupported("the only principal is everybody (*)")


def _level(resource: str, bucket: str) -> _Level:
    name, slash, keys = resource.removeprefix(_ARN).partition("/")
    if not resource.startswith(_ARN) or name != bucket:
        raise _malformed(f"the resource {resource[:200]} is not of the bucket {bucket}")
    if not slash:
        return "bucket"
    if keys != "*":
        raise _unsupported(f"a policy is for the whole bucket, not for {resource[:200]}")
    return "object"


def _strings(value: Any, name: str) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, str) for each in values):
        raise _malformed(f"{name} must be a string or a list of strings")
    return values


def _fields(value: Any, known: frozenset[str], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _malformed(f"{what} must be a JSON object")
    for name in value.keys() - known:
        raise _malformed(f"{name[:100]} is no field of {what}")
    for name in ("Id", "Sid"):
        if not isinstance(value.get(name, ""), str):
            raise _malformed(f"{name} must be a string")
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers of JSON disagree on which of two fields of the same name counts."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field is given twice")
    return fields


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _malformed(why: str) -> S3Error:
    return S3Error("MalformedPolicy", f"The policy is not valid: {why}.")


def _unsupported(why: str) -> S3Error:
    return S3Error(
        "NotImplemented",
        f"A bucket's policy is none, download, upload or public, for the whole bucket and everybody: {why}.",
    )
