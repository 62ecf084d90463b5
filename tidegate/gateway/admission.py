"""Who asks, for what, and may they: the decision that stands before every request.

A plain function of the request's head, the directory and the time. Nothing is forwarded, and no pool
woken, before it says yes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core import operations, permissions, sigv2, sigv4, storable
from tidegate.core.lifecycle.rules import RuleSet
from tidegate.core.operations import OPERATIONS, Operation, parse_copy_source
from tidegate.core.records import Bucket
from tidegate.core.s3errors import S3Error
from tidegate.gateway.directory import BucketView, Directory, OpenKey, PoolView
from tidegate.gateway.http1 import RequestHead
from tidegate.settings import GatewaySettings

_MOST_SIZE_DIGITS = 16

Claim = sigv2.QueryClaim | sigv4.Claim


@dataclass(slots=True)
class Admission:
    """A request that may go on. `bucket` is None for operations on the service and for CreateBucket."""

    head: RequestHead
    operation: Operation
    claim: Claim | None
    signing_key: sigv4.SigningKey | None
    key: OpenKey | None
    bucket_name: str
    object_key: str
    bucket: Bucket | None
    pool: PoolView
    rules: RuleSet | None = None


def admit(head: RequestHead, directory: Directory, settings: GatewaySettings, now: float) -> Admission:
    """Raises `S3Error` when the request is refused and `Missing` when the directory must be loaded first."""
    host = head.headers.get(b"host", b"").decode("latin-1")
    direct = _direct_pool(host, directory, settings.direct_domain) if settings.direct_domain else None
    domains = () if direct is not None else settings.domains
    bucket_name, object_key, _ = operations.parse_target(head.path, host, domains)
    operation = operations.classify(head.method.decode(), bucket_name, object_key, head.query, head.headers)
    claim, key, signing_key = _authenticate(head, directory, settings, now)
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
    pool = directory.pool(pool_name)
    if pool is None:
        raise S3Error("NoSuchBucket" if bucket else "InvalidAccessKeyId")
    if object_key:
        _check_storable(operation, pool, object_key, head)
    if b"x-amz-copy-source" in head.headers and operation.reads and operation.writes:
        _check_copy_source(head.headers[b"x-amz-copy-source"], key, pool, directory)
    if pool.address is None and operation.name == "CorsPreflight":
        raise S3Error("AccessDenied", "the pool sleeps, and a preflight, which bears no key, does not wake it")
    reason = pool.disabled(now)
    if reason:
        raise S3Error("AccessDenied", f"the pool is not in service: {reason}")
    record, rules = (bucket.bucket, bucket.rules) if bucket is not None else (None, None)
    return Admission(head, operation, claim, signing_key, key, bucket_name, object_key, record, pool, rules)


def _direct_pool(host: str, directory: Directory, domain: str) -> str | None:
    hostname = host.partition(":")[0].lower()
    if not hostname.endswith("." + domain):
        return None
    pool = directory.direct_pool(hostname[: -len(domain) - 1])
    if pool is None:
        raise S3Error("NoSuchBucket", "no pool has this host name")
    return pool


def _authenticate(
    head: RequestHead, directory: Directory, settings: GatewaySettings, now: float
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


def _announced_size(head: RequestHead) -> int:
    """What the head says about the size of the object; of a chunked one only that there may be something."""
    length = head.headers.get(b"x-amz-decoded-content-length", b"")
    encoded = head.headers.get(b"x-amz-content-sha256", b"").decode("latin-1") in sigv4.STREAMING_PAYLOADS
    if encoded and length.isdigit() and len(length) <= _MOST_SIZE_DIGITS:
        return int(length)
    return head.content_length or int(head.chunked)


def _check_copy_source(header: bytes, key: OpenKey | None, pool: PoolView, directory: Directory) -> None:
    source = parse_copy_source(header)
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


def _refusal(operation: Operation, key: OpenKey | None) -> str:
    if key is None:
        return f"the bucket's policy does not allow {operation.name} without an access key"
    return f"a {key.policy} key may not do {operation.name}"
