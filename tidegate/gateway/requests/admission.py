"""Who asks, for what, and may they: the decision that stands before every request.

A plain function of the request's head, the directory and the time. Nothing is forwarded, and no pool
woken, before it says yes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from tidegate.core import checksums, owners_acl, permissions, sigv2, sigv4, xml
from tidegate.core.cors import CorsRules
from tidegate.core.events import Pairs
from tidegate.core.lifecycle.rules import RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.operations import Operation, Parameters, check_version_id, read_query
from tidegate.core.placements import STUB_HEADER
from tidegate.core.records import Bucket, KeyPolicy
from tidegate.core.replication.rules import ReplicationRules
from tidegate.core.s3errors import S3Error
from tidegate.core.targets import CopySource, parse_copy_source
from tidegate.gateway.http.http1 import RequestHead
from tidegate.gateway.operations.table import OPERATIONS, TABLE
from tidegate.gateway.requests.addressing import Address, address_of, bucket_at
from tidegate.gateway.requests.directory import BucketView, Directory, OpenKey, PoolView
from tidegate.settings import GatewaySettings

_MOST_SIZE_DIGITS = 16
_STUB = STUB_HEADER.encode()
_ENCRYPTION = b"x-amz-server-side-encryption"
_CUSTOMER_KEY = _ENCRYPTION + b"-customer-"
_UPLOAD = "CreateMultipartUpload"
_PUTS = frozenset(("PutObject", "PostObject", _UPLOAD))

Claim = sigv2.QueryClaim | sigv4.Claim
Headers = Mapping[bytes, bytes]


@dataclass(slots=True)
class Admission:
    """A request that may go on, as the operation that it is. `bucket` is None for operations on the service and for
    CreateBucket. `headers` are those of the head, or those that the fields of a form stand for. `payload` is what the
    signature or a header says of the body: a SHA-256, the name of a kind, or nothing. `tags` and `checksum` are those
    that the headers state about an object that is to come about. `rules` are the bucket's for lifecycle, `replication`
    those for replication. `versioning` is the bucket's, None where nothing is known of it. `has_placements`: objects in
    the bucket were moved; of a copy, `source_has_placements` says so of the source's. `before_commit` is asked when the
    key is locked, before the last bytes of a change go out."""

    head: RequestHead
    operation: Operation
    parameters: Parameters
    claim: Claim | None
    signing_key: sigv4.SigningKey | None
    key: OpenKey | None
    bucket_name: str
    object_key: str
    bucket: Bucket | None
    pool: PoolView
    headers: Headers
    rules: RuleSet | None = None
    cors: CorsRules | None = None
    replication: ReplicationRules | None = None
    payload: str = ""
    copy_source: CopySource | None = None
    tags: Pairs = ()
    checksum: tuple[bytes, bytes] | None = None
    is_virtual_hosted: bool = False
    versioning: Versioning | None = None
    has_placements: bool = False
    source_has_placements: bool = False
    before_commit: Callable[[], Awaitable[None]] | None = None

    @property
    def has_versions(self) -> bool:
        """Whether the bucket has, or once had, versioning. Of one that nothing is known of, the worse is assumed."""
        return self.versioning is not Versioning.OFF

    @property
    def version_id(self) -> str:
        return self.parameters.get("versionId", "")

    @property
    def upload_id(self) -> str:
        return self.parameters.get("uploadId", "")


def admit(head: RequestHead, directory: Directory, settings: GatewaySettings, now: float) -> Admission:
    """Raises `S3Error` when the request is refused and `Missing` when the directory must be loaded first.

    Who sends a form, and for what, stands in its fields: whether it may go on is decided when these are here
    (`form_admission`).
    """
    address = address_of(head, directory, settings)
    given = read_query(head.query) if head.query else []
    operation, parameters = TABLE.find(head.method.decode(), address.scope, given, head.headers)
    claim, key, signing_key = _authenticate(head, operation, directory, settings, now)
    if address.direct is not None and key is not None and key.pool != address.direct:
        raise S3Error("AccessDenied", "this key belongs to another pool than this host name")
    bucket: BucketView | None = None
    if not address.bucket or operation.name == "CreateBucket":
        if key is None:
            raise S3Error("AccessDenied", "this operation needs an access key")
        pool_name = key.pool
    else:
        bucket = _bucket(address, key, directory)
        pool_name = bucket.bucket.pool
    if operation.is_internal and (key is None or not key.is_internal):
        raise S3Error("AccessDenied", "only Tidegate's own workers may do this")
    if not operation.is_form:
        check_rights(operation, key, bucket, head.headers, parameters)
        if operation.canned_acls:
            owners_acl.check_headers(head.headers, operation.canned_acls)
    pool = directory.pool(pool_name)
    if pool is None:
        raise S3Error("NoSuchBucket" if bucket else "InvalidAccessKeyId")
    if operation.name != "CorsPreflight":
        if address.key:
            check_metadata(operation, head.headers)
            check_storable(operation, pool, address.key, _announced_size(operation, head))
            if operation.has_metadata:
                check_encryption(pool, head.headers)
        check_in_service(pool, now)
    admission = Admission(
        head,
        operation,
        parameters,
        claim,
        signing_key,
        key,
        address.bucket,
        address.key,
        bucket.bucket if bucket is not None else None,
        pool,
        head.headers,
    )
    if bucket is not None:
        admission.rules, admission.cors, admission.versioning = bucket.rules, bucket.cors, bucket.versioning
        admission.has_placements, admission.replication = bucket.has_placements, bucket.replication
    admission.is_virtual_hosted = address.is_virtual_hosted
    if operation.is_copy:
        admission.copy_source, admission.source_has_placements = _copy_source(
            head.headers[b"x-amz-copy-source"], key, pool, directory
        )
    if operation.body is not None:
        admission.payload = _payload(head, claim)
        if operation.body.is_stated:
            admission.checksum = stated_checksum(head.headers)
    if operation.has_metadata and not operation.is_form and b"x-amz-tagging" in head.headers:
        admission.tags = xml.parse_tagging_header(head.headers[b"x-amz-tagging"])
    return admission


def _payload(head: RequestHead, claim: Claim | None) -> str:
    if isinstance(claim, sigv4.Claim):
        return claim.payload
    stated = head.headers.get(b"x-amz-content-sha256")
    return sigv4.checked_payload(stated) if stated is not None else ""


def stated_checksum(headers: Headers) -> tuple[bytes, bytes] | None:
    found = checksums.stated(headers)
    return None if found is None else (found[0], checksums.encoded(checksums.decoded(found[1])))


def check_rights(
    operation: Operation, key: OpenKey | None, bucket: BucketView | None, headers: Headers, parameters: Parameters
) -> None:
    """With a key, whose pool is the bucket's, its policy decides; without one, the bucket's. Raises `S3Error`."""
    if not permissions.allowed(
        operation,
        key_policy=key.policy if key is not None else None,
        bucket_policy=bucket.policy if bucket is not None else None,
    ):
        raise S3Error("AccessDenied", _refusal(operation, key))
    _check_special_rights(headers, parameters, key)


def _check_special_rights(headers: Headers, parameters: Parameters, key: OpenKey | None) -> None:
    """Rights that are finer than reading and writing. The backend's credential has them all, so it cannot tell."""
    if b"x-amz-bypass-governance-retention" in headers and (key is None or key.policy is not KeyPolicy.READWRITE):
        raise S3Error("AccessDenied", "only a readwrite key may bypass governance retention")
    if key is None:
        if any(name.startswith(b"x-amz-object-lock-") for name in headers):
            raise S3Error("AccessDenied", "an object cannot be locked without an access key")
        if any(name.startswith("response-") for name in parameters):
            raise S3Error(
                "InvalidRequest", "Request specific response headers cannot be used for anonymous GET requests."
            )


def _authenticate(
    head: RequestHead, operation: Operation, directory: Directory, settings: GatewaySettings, now: float
) -> tuple[Claim | None, OpenKey | None, sigv4.SigningKey | None]:
    if operation.name == "CorsPreflight":
        # A browser never signs it, though the query, which is that of the request to come, may bear a signature.
        return None, None, None
    query_claim = (
        sigv2.parse(head.method, head.path, head.query, head.headers, settings.domains) if head.query else None
    )
    claim = query_claim or sigv4.parse(head.method, head.path, head.query, head.headers)
    if claim is None:
        return None, None, None
    if operation.is_form:
        raise S3Error("InvalidArgument", "Only one auth mechanism allowed: a form is signed by its policy alone.")
    key = valid_key(claim.access_key, directory, now)
    if isinstance(claim, sigv4.Claim):
        return claim, key, sigv4.verify(claim, key.secret, now=now, skew=settings.clock_skew_seconds)
    sigv2.verify(claim, key.secret, now=now)
    if operation.subresource and operation.subresource not in sigv2.SIGNED_PARAMETERS:
        raise S3Error("AccessDenied", f"a signature of version 2 does not cover {operation.subresource}")
    return claim, key, None


def valid_key(access_key: str, directory: Directory, now: float) -> OpenKey:
    key = directory.key(access_key)
    if key is None:
        raise S3Error("InvalidAccessKeyId")
    if key.expires_at is not None and key.expires_at <= now:
        raise S3Error("InvalidAccessKeyId", "the access key has expired")
    return key


def _bucket(address: Address, key: OpenKey | None, directory: Directory) -> BucketView:
    found = bucket_at(address, directory)
    if found is None:
        raise S3Error("NoSuchBucket", fields={"BucketName": address.bucket})
    check_same_pool(found, key)
    return found


def check_same_pool(bucket: BucketView, key: OpenKey | None) -> None:
    if key is not None and key.pool != bucket.bucket.pool:
        raise S3Error("AccessDenied", "the bucket belongs to another pool than the access key")


def check_in_service(pool: PoolView, now: float) -> None:
    reason = pool.disabled(now)
    if reason:
        raise S3Error("AccessDenied", f"the pool is not in service: {reason}")


def check_storable(operation: Operation, pool: PoolView, object_key: str, size: int) -> None:
    """Keys that the backend would silently store under another name, hide or lose are refused. `size` is that of the
    data, or anything above zero where there may be some."""
    problem = pool.traits.key_problem(object_key)
    if problem:
        raise S3Error("InvalidArgument" if operation.writes else "NoSuchKey", problem)
    if operation.name in _PUTS:
        problem = pool.traits.body_problem(object_key, size)
        if problem:
            raise S3Error("InvalidArgument", problem)


def check_metadata(operation: Operation, headers: Headers) -> None:
    """What names the record of a moved object is Tidegate's own: a client could pass an object off as one."""
    if operation.has_metadata and _STUB in headers and not operation.is_internal:
        raise S3Error("InvalidArgument", f"the metadata {STUB_HEADER} are Tidegate's own")


def check_encryption(pool: PoolView, names: Iterable[bytes]) -> None:
    """Clients' own keys need nothing from a store but to use them."""
    if pool.traits.has_encryption_keys:
        return
    for name in names:
        if name.startswith(_ENCRYPTION) and not name.startswith(_CUSTOMER_KEY):
            raise S3Error(
                "NotImplemented",
                f"This pool's store has no keys to encrypt objects with, which {name.decode()} asks for.",
            )


def _announced_size(operation: Operation, head: RequestHead) -> int:
    """What the head says about the size of the object; of a chunked one, and of one in parts, only that there may be
    something."""
    if operation.body is None:
        return int(operation.name == _UPLOAD)
    length = head.headers.get(b"x-amz-decoded-content-length", b"")
    encoded = head.headers.get(b"x-amz-content-sha256", b"").decode("latin-1") in sigv4.STREAMING_PAYLOADS
    if encoded and length.isdigit() and len(length) <= _MOST_SIZE_DIGITS:
        return int(length)
    return head.content_length or int(head.chunked)


def _copy_source(header: bytes, key: OpenKey | None, pool: PoolView, directory: Directory) -> tuple[CopySource, bool]:
    """The source, and whether objects in its bucket were moved."""
    source = parse_copy_source(header)
    if source.version_id:
        check_version_id(source.version_id)
    found = directory.bucket(source.bucket)
    if found is None:
        raise S3Error("NoSuchBucket", "the source bucket does not exist", fields={"BucketName": source.bucket})
    if found.bucket.pool != pool.pool.name:
        raise S3Error("AccessDenied", "the source bucket belongs to another pool")
    if key is None and not permissions.allowed(OPERATIONS["GetObject"], key_policy=None, bucket_policy=found.policy):
        raise S3Error("AccessDenied", "the source bucket's policy does not allow reading without an access key")
    problem = pool.traits.key_problem(source.key)
    if problem:
        raise S3Error("NoSuchKey", problem)
    return source, found.has_placements


def _refusal(operation: Operation, key: OpenKey | None) -> str:
    if key is None:
        return f"the bucket's policy does not allow {operation.name} without an access key"
    return f"a {key.policy} key may not do {operation.name}"
