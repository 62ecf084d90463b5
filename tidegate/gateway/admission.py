"""Who asks, for what, and may they: the decision that stands before every request.

A plain function of the request's head, the directory and the time. Nothing is forwarded, and no pool
woken, before it says yes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core import checksums, owners_acl, permissions, sigv2, sigv4, storable, xml
from tidegate.core.events import Pairs
from tidegate.core.lifecycle.rules import RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.operations import Operation, Parameters, Scope, check_version_id, read_query
from tidegate.core.records import Bucket, KeyPolicy
from tidegate.core.s3errors import S3Error
from tidegate.core.targets import CopySource, parse_copy_source, parse_target
from tidegate.gateway.directory import BucketView, Directory, OpenKey, PoolView
from tidegate.gateway.http1 import RequestHead
from tidegate.gateway.operations import OPERATIONS, TABLE
from tidegate.settings import GatewaySettings

_MOST_SIZE_DIGITS = 16
_ENCRYPTION = b"x-amz-server-side-encryption"
_CUSTOMER_KEY = _ENCRYPTION + b"-customer-"

Claim = sigv2.QueryClaim | sigv4.Claim


@dataclass(slots=True)
class Admission:
    """A request that may go on, as the operation that it is. `bucket` is None for operations on the service and for
    CreateBucket. `payload` is what the signature or a header says of the body: a SHA-256, the name of a kind, or
    nothing. `tags` and `checksum` are those that the headers state about an object that is to come about. `versioning`
    is the bucket's, None where nothing is known of it."""

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
    rules: RuleSet | None = None
    payload: str = ""
    copy_source: CopySource | None = None
    tags: Pairs = ()
    checksum: tuple[bytes, bytes] | None = None
    is_virtual_hosted: bool = False
    versioning: Versioning | None = None

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
    """Raises `S3Error` when the request is refused and `Missing` when the directory must be loaded first."""
    host = head.headers.get(b"host", b"").decode("latin-1")
    direct = _direct_pool(host, directory, settings.direct_domain) if settings.direct_domain else None
    domains = () if direct is not None else settings.domains
    bucket_name, object_key, style = parse_target(head.path, host, domains)
    scope: Scope = "object" if object_key else "bucket" if bucket_name else "service"
    given = read_query(head.query) if head.query else []
    operation, parameters = TABLE.find(head.method.decode(), scope, given, head.headers)
    claim, key, signing_key = _authenticate(head, operation, directory, settings, now)
    if direct is not None and key is not None and key.pool != direct:
        raise S3Error("AccessDenied", "this key belongs to another pool than this host name")
    bucket: BucketView | None = None
    if not bucket_name or operation.name == "CreateBucket":
        if key is None:
            raise S3Error("AccessDenied", "this operation needs an access key")
        pool_name = key.pool
    else:
        bucket = _bucket(bucket_name, key, direct, directory)
        pool_name = bucket.bucket.pool
    if not permissions.allowed(
        operation,
        key_policy=key.policy if key is not None else None,
        bucket_policy=bucket.policy if bucket is not None else None,
    ):
        raise S3Error("AccessDenied", _refusal(operation, key))
    _check_special_rights(head, parameters, key)
    if operation.canned_acls:
        owners_acl.check_headers(head.headers, operation.canned_acls)
    pool = directory.pool(pool_name)
    if pool is None:
        raise S3Error("NoSuchBucket" if bucket else "InvalidAccessKeyId")
    if object_key:
        _check_storable(operation, pool, object_key, head)
        if operation.has_metadata:
            _check_encryption(pool, head)
    if pool.address is None and operation.name == "CorsPreflight":
        raise S3Error("AccessDenied", "the pool sleeps, and a preflight, which bears no key, does not wake it")
    reason = pool.disabled(now)
    if reason:
        raise S3Error("AccessDenied", f"the pool is not in service: {reason}")
    record, rules = (bucket.bucket, bucket.rules) if bucket is not None else (None, None)
    admission = Admission(
        head, operation, parameters, claim, signing_key, key, bucket_name, object_key, record, pool, rules
    )
    admission.is_virtual_hosted = style == "virtual"
    admission.versioning = bucket.versioning if bucket is not None else None
    if operation.is_copy:
        admission.copy_source = _copy_source(head.headers[b"x-amz-copy-source"], key, pool, directory)
    if operation.body is not None:
        admission.payload = _payload(head, claim)
        if operation.body.is_stated:
            admission.checksum = _checksum(head)
    if operation.has_metadata and b"x-amz-tagging" in head.headers:
        admission.tags = xml.parse_tagging_header(head.headers[b"x-amz-tagging"])
    return admission


def _payload(head: RequestHead, claim: Claim | None) -> str:
    if isinstance(claim, sigv4.Claim):
        return claim.payload
    stated = head.headers.get(b"x-amz-content-sha256")
    return sigv4.checked_payload(stated) if stated is not None else ""


def _checksum(head: RequestHead) -> tuple[bytes, bytes] | None:
    found = checksums.stated(head.headers)
    return None if found is None else (found[0], checksums.encoded(checksums.decoded(found[1])))


def _check_special_rights(head: RequestHead, parameters: Parameters, key: OpenKey | None) -> None:
    """Rights that are finer than reading and writing. The backend's credential has them all, so it cannot tell."""
    if b"x-amz-bypass-governance-retention" in head.headers and (key is None or key.policy is not KeyPolicy.READWRITE):
        raise S3Error("AccessDenied", "only a readwrite key may bypass governance retention")
    if key is None:
        if any(name.startswith(b"x-amz-object-lock-") for name in head.headers):
            raise S3Error("AccessDenied", "an object cannot be locked without an access key")
        if any(name.startswith("response-") for name in parameters):
            raise S3Error(
                "InvalidRequest", "Request specific response headers cannot be used for anonymous GET requests."
            )


def _direct_pool(host: str, directory: Directory, domain: str) -> str | None:
    hostname = host.partition(":")[0].lower()
    if not hostname.endswith("." + domain):
        return None
    pool = directory.direct_pool(hostname[: -len(domain) - 1])
    if pool is None:
        raise S3Error("NoSuchBucket", "no pool has this host name")
    return pool


def _authenticate(
    head: RequestHead, operation: Operation, directory: Directory, settings: GatewaySettings, now: float
) -> tuple[Claim | None, OpenKey | None, sigv4.SigningKey | None]:
    query_claim = (
        sigv2.parse(head.method, head.path, head.query, head.headers, settings.domains) if head.query else None
    )
    claim = query_claim or sigv4.parse(head.method, head.path, head.query, head.headers)
    if claim is None:
        return None, None, None
    key = directory.key(claim.access_key)
    if key is None:
        raise S3Error("InvalidAccessKeyId")
    if key.expires_at is not None and key.expires_at <= now:
        raise S3Error("InvalidAccessKeyId", "the access key has expired")
    if isinstance(claim, sigv4.Claim):
        return claim, key, sigv4.verify(claim, key.secret, now=now, skew=settings.clock_skew_seconds)
    sigv2.verify(claim, key.secret, now=now)
    if operation.subresource and operation.subresource not in sigv2.SIGNED_PARAMETERS:
        raise S3Error("AccessDenied", f"a signature of version 2 does not cover {operation.subresource}")
    return claim, key, None


def _bucket(name: str, key: OpenKey | None, direct: str | None, directory: Directory) -> BucketView:
    found = directory.bucket(name)
    if found is None or (direct is not None and found.bucket.pool != direct):
        raise S3Error("NoSuchBucket", fields={"BucketName": name})
    if key is not None and key.pool != found.bucket.pool:
        raise S3Error("AccessDenied", "the bucket belongs to another pool than the access key")
    return found


def _check_storable(operation: Operation, pool: PoolView, object_key: str, head: RequestHead) -> None:
    """Keys that the backend would silently store under another name, hide or lose are refused."""
    backend = pool.pool.backend
    problem = storable.key_problem(backend, object_key)
    if problem:
        raise S3Error("InvalidArgument" if operation.writes else "NoSuchKey", problem)
    if operation.name == "PutObject":
        problem = storable.body_problem(backend, object_key, _announced_size(head))
        if problem:
            raise S3Error("InvalidArgument", problem)


def _check_encryption(pool: PoolView, head: RequestHead) -> None:
    """Clients' own keys need nothing from a store but to use them."""
    if storable.has_encryption_keys(pool.pool.backend):
        return
    for name in head.headers:
        if name.startswith(_ENCRYPTION) and not name.startswith(_CUSTOMER_KEY):
            raise S3Error(
                "NotImplemented",
                f"This pool's store has no keys to encrypt objects with, which {name.decode()} asks for.",
            )


def _announced_size(head: RequestHead) -> int:
    """What the head says about the size of the object; of a chunked one only that there may be something."""
    length = head.headers.get(b"x-amz-decoded-content-length", b"")
    encoded = head.headers.get(b"x-amz-content-sha256", b"").decode("latin-1") in sigv4.STREAMING_PAYLOADS
    if encoded and length.isdigit() and len(length) <= _MOST_SIZE_DIGITS:
        return int(length)
    return head.content_length or int(head.chunked)


def _copy_source(header: bytes, key: OpenKey | None, pool: PoolView, directory: Directory) -> CopySource:
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
    problem = storable.key_problem(pool.pool.backend, source.key)
    if problem:
        raise S3Error("NoSuchKey", problem)
    return source


def _refusal(operation: Operation, key: OpenKey | None) -> str:
    if key is None:
        return f"the bucket's policy does not allow {operation.name} without an access key"
    return f"a {key.policy} key may not do {operation.name}"
