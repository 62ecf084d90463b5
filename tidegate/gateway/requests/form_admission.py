"""Who sends a form, for what, and may they: decided when the fields before its file are here.

They say what the head of a PutObject says, so the same rules hold for both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from tidegate.core import checksums, owners_acl, sigv2, xml
from tidegate.core.operations import METADATA, Operation
from tidegate.core.post_policy import PostPolicy, SizeRange, parse_policy
from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4.form import parse_form, verify_form
from tidegate.core.targets import checked_key
from tidegate.gateway.requests.admission import (
    Admission,
    check_encryption,
    check_in_service,
    check_metadata,
    check_rights,
    check_same_pool,
    check_storable,
    stated_checksum,
    valid_key,
)
from tidegate.gateway.requests.directory import Directory, OpenKey
from tidegate.gateway.requests.form_reader import FormReader
from tidegate.settings import GatewaySettings

_NO_POLICY = PostPolicy(float("inf"), (), SizeRange())
_FILENAME = "${filename}"
# Headers that the gateway heeds itself or writes anew.
_ALSO_HEEDED = checksums.HEADERS | {b"content-encoding", b"content-md5"}
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

Fields = Mapping[str, str]


class FormTerms(NamedTuple):
    """What the fields say beside what a PutObject can say: the file's size, and the answer that is wanted."""

    size: SizeRange
    status: int
    redirect: str


def admit_form(
    admission: Admission, form: FormReader, directory: Directory, settings: GatewaySettings, now: float
) -> FormTerms:
    """Completes the admission. Raises `S3Error` when the form is refused, and `Missing`, before anything is changed,
    when the directory must be loaded first."""
    fields = _expanded(form)
    key, policy = _signed(fields, directory, settings, now)
    bucket = directory.bucket(admission.bucket_name)
    pool = directory.pool(bucket.bucket.pool) if bucket is not None else None
    if bucket is None or pool is None:
        raise S3Error("NoSuchBucket", fields={"BucketName": admission.bucket_name})
    check_same_pool(bucket, key)
    if policy is not _NO_POLICY:
        policy.check(fields, bucket=admission.bucket_name, now=now)
    headers = _headers(admission.operation, fields)
    check_rights(admission.operation, key, bucket, headers, {})
    check_metadata(admission.operation, headers)
    check_in_service(pool, now)
    if fields.get("bucket", admission.bucket_name) != admission.bucket_name:
        raise S3Error("InvalidArgument", "The form names another bucket than the one that it was posted to.")
    object_key = _object_key(fields)
    # A file may well be empty, but that is not known yet.
    check_storable(admission.operation, pool, object_key, 1)
    check_encryption(pool, (name.lower().encode() for name in fields))
    if "acl" in fields:
        owners_acl.check_headers({b"x-amz-acl": fields["acl"].encode()}, owners_acl.ACCEPTED)
    admission.key, admission.object_key, admission.headers = key, object_key, headers
    admission.bucket, admission.rules, admission.pool = bucket.bucket, bucket.rules, pool
    admission.versioning, admission.has_placements = bucket.versioning, bucket.has_placements
    admission.checksum = stated_checksum(headers)
    if "tagging" in fields:
        admission.tags = xml.parse_tagging(fields["tagging"].encode())
    return FormTerms(policy.size, _status(fields), fields.get("success_action_redirect") or fields.get("redirect", ""))


def file_checks(admission: Admission) -> list[checksums.BodyCheck]:
    """What the fields say of the file."""
    checks = []
    if b"content-md5" in admission.headers:
        checks.append(checksums.md5_check(admission.headers[b"content-md5"]))
    if admission.checksum is not None:
        checks.append(checksums.checksum_check(*admission.checksum))
    return checks


def _expanded(form: FormReader) -> dict[str, str]:
    """The fields as the policy's conditions see them."""
    fields = dict(form.fields)
    if "key" in fields:
        name = form.filename.replace("\\", "/").rpartition("/")[2]
        fields["key"] = fields["key"].replace(_FILENAME, name)
    return fields


def _signed(
    fields: Fields, directory: Directory, settings: GatewaySettings, now: float
) -> tuple[OpenKey | None, PostPolicy]:
    """The key that signed the policy, and the policy. A form without both is one from anybody."""
    claim = parse_form(fields)
    if claim is not None:
        key = valid_key(claim.access_key, directory, now)
        verify_form(claim, key.secret, now=now, skew=settings.clock_skew_seconds)
        return key, parse_policy(claim.policy)
    old_claim = sigv2.parse_form(fields)
    if old_claim is not None:
        key = valid_key(old_claim.access_key, directory, now)
        sigv2.verify_form(old_claim, key.secret)
        policy = parse_policy(old_claim.policy)
        if policy.expires > now + sigv2.LONGEST_LIFE_SECONDS:
            raise S3Error("AccessDenied", "A policy that is signed with version 2 may live for a week at most")
        return key, policy
    if "policy" in fields:
        raise S3Error("InvalidArgument", "Bucket POST must contain a field named 'x-amz-signature'.")
    return None, _NO_POLICY


def _object_key(fields: Fields) -> str:
    if "key" not in fields:
        raise S3Error(
            "InvalidArgument",
            "Bucket POST must contain a field named 'key'. If it is specified, please check the order of the fields.",
        )
    key = checked_key(fields["key"].encode())
    if not key:
        raise S3Error("InvalidArgument", "User key must have a length greater than 0.")
    return key


def _headers(operation: Operation, fields: Fields) -> dict[bytes, bytes]:
    """Those that a PutObject would have in place of the fields."""
    headers = {}
    for field, text in fields.items():
        name, value = field.encode(), text.encode()
        if name in operation.headers or name in _ALSO_HEEDED or name.startswith((METADATA, checksums.PREFIX)):
            if not _HEADER_NAME.fullmatch(name) or _CONTROL.search(value):
                raise S3Error("InvalidArgument", f"The field {field[:256]} has characters that no header has.")
            headers[name] = value
    return headers


def _status(fields: Fields) -> int:
    """As S3 does, anything unknown counts as nothing."""
    wanted = fields.get("success_action_status", "")
    return int(wanted) if wanted in ("200", "201") else 204
