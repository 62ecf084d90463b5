"""Which S3 operation a request asks for, from its method, target and sub-resource.

The table is complete: what does not stand in it never reaches a backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import unquote_to_bytes

from tidegate.core.s3errors import S3Error
from tidegate.core.targets import CopySource, Target, parse_copy_source, parse_target

__all__ = ["OPERATIONS", "CopySource", "Operation", "Target", "classify", "parse_copy_source", "parse_target"]

Scope = Literal["service", "bucket", "object"]


class Operation(NamedTuple):
    """`reads` and `writes` say which right it needs (a copy both, a preflight none); listing an upload's parts belongs
    to writing. `journals`: its success is a change of the metadata log. `anonymous`: a bucket's policy
    can open it to requests without a key."""

    name: str
    scope: Scope
    reads: bool = False
    writes: bool = False
    journals: bool = False
    anonymous: bool = False


def _read(name: str, scope: Scope, *, anonymous: bool = False) -> Operation:
    return Operation(name, scope, reads=True, anonymous=anonymous)


def _write(name: str, scope: Scope, *, journals: bool = True, anonymous: bool = False) -> Operation:
    return Operation(name, scope, writes=True, journals=journals, anonymous=anonymous)


def _copy(name: str, *, journals: bool) -> Operation:
    return Operation(name, "object", reads=True, writes=True, journals=journals, anonymous=True)


_COPY_OBJECT = _copy("CopyObject", journals=True)
_UPLOAD_PART_COPY = _copy("UploadPartCopy", journals=False)
_LIST_OBJECTS_V2 = _read("ListObjectsV2", "bucket", anonymous=True)

# (method, sub-resource) to operation; the sub-resource "" is the plain request.
_SERVICE: dict[tuple[str, str], Operation] = {("GET", ""): _read("ListBuckets", "service")}
_BUCKET: dict[tuple[str, str], Operation] = {
    ("PUT", ""): _write("CreateBucket", "bucket"),
    ("DELETE", ""): _write("DeleteBucket", "bucket"),
    ("HEAD", ""): _read("HeadBucket", "bucket", anonymous=True),
    ("GET", ""): _read("ListObjects", "bucket", anonymous=True),
    ("GET", "versions"): _read("ListObjectVersions", "bucket", anonymous=True),
    ("GET", "uploads"): _write("ListMultipartUploads", "bucket", journals=False, anonymous=True),
    ("POST", "delete"): _write("DeleteObjects", "bucket", anonymous=True),
    ("GET", "location"): _read("GetBucketLocation", "bucket"),
    ("GET", "acl"): _read("GetBucketAcl", "bucket"),
    ("GET", "requestPayment"): _read("GetBucketRequestPayment", "bucket"),
    ("GET", "versioning"): _read("GetBucketVersioning", "bucket"),
    ("PUT", "versioning"): _write("PutBucketVersioning", "bucket"),
    ("GET", "tagging"): _read("GetBucketTagging", "bucket"),
    ("PUT", "tagging"): _write("PutBucketTagging", "bucket"),
    ("DELETE", "tagging"): _write("DeleteBucketTagging", "bucket"),
    ("GET", "cors"): _read("GetBucketCors", "bucket"),
    ("PUT", "cors"): _write("PutBucketCors", "bucket"),
    ("DELETE", "cors"): _write("DeleteBucketCors", "bucket"),
    ("GET", "object-lock"): _read("GetObjectLockConfiguration", "bucket"),
    ("PUT", "object-lock"): _write("PutObjectLockConfiguration", "bucket"),
    ("GET", "lifecycle"): _read("GetBucketLifecycleConfiguration", "bucket"),
    ("PUT", "lifecycle"): _write("PutBucketLifecycleConfiguration", "bucket"),
    ("DELETE", "lifecycle"): _write("DeleteBucketLifecycle", "bucket"),
    ("OPTIONS", ""): Operation("CorsPreflight", "bucket", anonymous=True),
}
_OBJECT: dict[tuple[str, str], Operation] = {
    ("GET", ""): _read("GetObject", "object", anonymous=True),
    ("HEAD", ""): _read("HeadObject", "object", anonymous=True),
    ("PUT", ""): _write("PutObject", "object", anonymous=True),
    ("DELETE", ""): _write("DeleteObject", "object", anonymous=True),
    ("POST", "uploads"): _write("CreateMultipartUpload", "object", anonymous=True),
    ("PUT", "uploadId"): _write("UploadPart", "object", journals=False, anonymous=True),
    ("POST", "uploadId"): _write("CompleteMultipartUpload", "object", anonymous=True),
    ("DELETE", "uploadId"): _write("AbortMultipartUpload", "object", anonymous=True),
    ("GET", "uploadId"): _write("ListParts", "object", journals=False, anonymous=True),
    ("GET", "attributes"): _read("GetObjectAttributes", "object", anonymous=True),
    ("GET", "tagging"): _read("GetObjectTagging", "object", anonymous=True),
    ("PUT", "tagging"): _write("PutObjectTagging", "object", anonymous=True),
    ("DELETE", "tagging"): _write("DeleteObjectTagging", "object", anonymous=True),
    ("GET", "acl"): _read("GetObjectAcl", "object"),
    ("GET", "retention"): _read("GetObjectRetention", "object"),
    ("PUT", "retention"): _write("PutObjectRetention", "object", journals=False),
    ("GET", "legal-hold"): _read("GetObjectLegalHold", "object"),
    ("PUT", "legal-hold"): _write("PutObjectLegalHold", "object", journals=False),
    ("OPTIONS", ""): Operation("CorsPreflight", "object", anonymous=True),
}

_EVERY = (*_SERVICE.values(), *_BUCKET.values(), *_OBJECT.values(), _LIST_OBJECTS_V2, _COPY_OBJECT, _UPLOAD_PART_COPY)
OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _EVERY}

_KNOWN = {b"": ""} | {name.encode(): name for table in (_BUCKET, _OBJECT) for _, name in table if name}
_UNSUPPORTED = {
    name.encode(): name
    for name in (
        *("abac", "accelerate", "analytics", "encryption", "intelligent-tiering", "inventory"),
        *("logging", "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable", "metadataTable"),
        *("metrics", "notification", "ownershipControls", "policy", "policyStatus", "publicAccessBlock"),
        *("renameObject", "replication", "restore", "select", "session", "torrent", "website"),
    )
}
_SUBRESOURCES = _KNOWN | _UNSUPPORTED
_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"})


def classify(method: str, bucket: str, key: str, query: bytes, headers: Mapping[bytes, bytes]) -> Operation:
    """The operation; S3Error when there is none, or when Tidegate does not offer it."""
    table = _OBJECT if key else _BUCKET if bucket else _SERVICE
    # A preflight asks about the request to come, whatever that is.
    if not query or method == "OPTIONS":
        operation = table.get((method, ""))
        if operation is None:
            raise _refusal(method, "", table, headers)
        return _COPY_OBJECT if operation.name == "PutObject" and b"x-amz-copy-source" in headers else operation
    subresource, parameters = _read_query(query)
    operation = table.get((method, subresource))
    if operation is None:
        raise _refusal(method, subresource, table, headers)
    return _refined(operation, parameters, headers)


def _refined(operation: Operation, parameters: dict[bytes, bytes], headers: Mapping[bytes, bytes]) -> Operation:
    """What else than the sub-resource makes a difference: list-type, partNumber, a copy's source."""
    name = operation.name
    if name == "ListObjects" and b"list-type" in parameters:
        if parameters[b"list-type"] != b"2":
            raise S3Error("InvalidArgument", "Invalid List Type specified in Request")
        return _LIST_OBJECTS_V2
    if name == "UploadPart":
        _check_part_number(parameters.get(b"partNumber", b""))
        return _UPLOAD_PART_COPY if b"x-amz-copy-source" in headers else operation
    if name == "PutObject":
        if b"partNumber" in parameters:
            raise S3Error("InvalidArgument", "This operation does not accept a partNumber without an uploadId.")
        return _COPY_OBJECT if b"x-amz-copy-source" in headers else operation
    return operation


def _check_part_number(text: bytes) -> None:
    if not text.isdigit() or len(text) > 5 or not 1 <= int(text) <= 10000:
        raise S3Error("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")


def _read_query(query: bytes) -> tuple[str, dict[bytes, bytes]]:
    """The one sub-resource that the query names ("" for none), and the parameters that matter."""
    found: list[str] = []
    parameters: dict[bytes, bytes] = {}
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if b"%" in name or b"+" in name:
            name = unquote_to_bytes(name.replace(b"+", b" "))
        if name in (b"list-type", b"partNumber"):
            if name in parameters:
                raise S3Error("InvalidArgument", f"The parameter {name.decode()} is given twice.")
            parameters[name] = unquote_to_bytes(value)
        elif name and name in _SUBRESOURCES:
            found.append(_SUBRESOURCES[name])
    if len(found) > 1:
        raise S3Error("InvalidRequest", f"Conflicting query string parameters: {', '.join(sorted(found))}")
    return (found[0] if found else ""), parameters


def _refusal(
    method: str, subresource: str, table: dict[tuple[str, str], Operation], headers: Mapping[bytes, bytes]
) -> S3Error:
    if method not in _METHODS:
        return S3Error("MethodNotAllowed", f"S3 knows no method {method[:20]}.")
    if subresource.encode() in _UNSUPPORTED or (method == "PUT" and subresource == "acl" and table is not _SERVICE):
        return S3Error("NotImplemented", f"The sub-resource {subresource} is not implemented.")
    form = headers.get(b"content-type", b"").lower().startswith(b"multipart/form-data")
    if method == "POST" and table is _BUCKET and not subresource and form:
        return S3Error("NotImplemented", "Uploads by POST of a form are not implemented.")
    allowed = sorted(offered for offered, of in table if of == subresource)
    where = f"the sub-resource {subresource}" if subresource else "this resource"
    return S3Error(
        "MethodNotAllowed",
        f"The method {method} is not allowed against {where}.",
        headers={"Allow": ", ".join(allowed)} if allowed else {},
    )
