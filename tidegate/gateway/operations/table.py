"""The table of S3's operations: one record says everything about each.

`core.operations.Operation` explains the fields. What a record does not name is not passed on to a backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.core import owners_acl, policy_documents, xml
from tidegate.core.cors_xml import parse_cors
from tidegate.core.documents import document_xml
from tidegate.core.fixed_answers import FIXED_ANSWERS
from tidegate.core.operations import DATA, Body, Operation, OperationTable, Scope
from tidegate.gateway.changes import event_builder
from tidegate.gateway.operations import (
    acls,
    attributes,
    bucket_replication,
    bucket_settings,
    buckets,
    delete_conditions,
    delete_markers,
    deletes,
    folders,
    form_reply,
    listing,
    upload_notes,
)
from tidegate.gateway.placements import copies, deleting, moving_back, placing, reads, restoring, version_settings
from tidegate.gateway.requests import browsers, expiration, read_headers, replies

_KIB = 1024


def _document(root: str) -> Body:
    """An XML document that only the backend needs to understand."""
    return Body(64 * _KIB, lambda body: xml.read_document(body, root), document_xml)


# --- headers and parameters --------------------------------------------------------------------------------------

_CUSTOMER_KEY = frozenset(
    b"x-amz-server-side-encryption-customer-" + name for name in (b"algorithm", b"key", b"key-md5")
)
_SOURCE_KEY = frozenset(name.replace(b"x-amz-", b"x-amz-copy-source-", 1) for name in _CUSTOMER_KEY)
_CONDITIONS_OF_READS = frozenset((b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since"))
_CONDITIONS_OF_WRITES = frozenset((b"if-match", b"if-none-match"))
_CONDITIONS_OF_SOURCES = frozenset(
    b"x-amz-copy-source-" + name
    for name in (b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since")
)
# What an upload, a copy or the start of an upload in parts says about the object that is to come about. The gateway
# writes content-encoding, x-amz-tagging, checksums and a copy's source anew (`backend_requests`).
_DESCRIPTION = _CUSTOMER_KEY | frozenset(
    (
        *(b"cache-control", b"content-disposition", b"content-language", b"content-type", b"expires"),
        *(b"x-amz-storage-class", b"x-amz-website-redirect-location"),
        *(b"x-amz-object-lock-mode", b"x-amz-object-lock-retain-until-date", b"x-amz-object-lock-legal-hold"),
        *(b"x-amz-server-side-encryption", b"x-amz-server-side-encryption-aws-kms-key-id"),
        *(b"x-amz-server-side-encryption-context", b"x-amz-server-side-encryption-bucket-key-enabled"),
    )
)
_CHECKSUM_KINDS = frozenset((b"x-amz-checksum-algorithm", b"x-amz-checksum-type", b"x-amz-sdk-checksum-algorithm"))
_BYPASS = frozenset((b"x-amz-bypass-governance-retention",))
_OVERRIDES = frozenset(
    f"response-{name}"
    for name in (
        *("cache-control", "content-disposition", "content-encoding", "content-language", "content-type"),
        "expires",
    )
)
_VERSION = frozenset(("versionId",))
_UPLOAD = frozenset(("uploadId",))
_PAGE = frozenset(("delimiter", "encoding-type", "prefix"))

# --- ways to make a record ---------------------------------------------------------------------------------------


def _read(name: str, scope: Scope, method: str = "GET", subresource: str = "", **more: Any) -> Operation:
    return Operation(name=name, scope=scope, method=method, subresource=subresource, reads=True, **more)


def _write(name: str, scope: Scope, method: str, subresource: str = "", **more: Any) -> Operation:
    return Operation(name=name, scope=scope, method=method, subresource=subresource, writes=True, **more)


def _change(name: str, scope: Scope, method: str, subresource: str = "", **more: Any) -> Operation:
    return _write(name, scope, method, subresource, logs_events=True, **more)


def _copy(name: str, *, headers: frozenset[bytes] = frozenset(), **more: Any) -> Operation:
    headers |= _CONDITIONS_OF_SOURCES | _CUSTOMER_KEY | _SOURCE_KEY
    return _write(
        name,
        "object",
        "PUT",
        reads=True,
        anonymous=True,
        is_copy=True,
        headers=headers,
        missing=delete_markers.of_source,
        placed=copies.copy,
        **more,
    )


def _shown(name: str, method: str) -> Operation:
    """An object is shown, whole or its head alone."""
    return _read(
        name,
        "object",
        method,
        anonymous=True,
        parameters=_VERSION | _OVERRIDES | {"partNumber"},
        headers=_CONDITIONS_OF_READS | _CUSTOMER_KEY | {b"range", b"x-amz-checksum-mode"},
        handler=folders.before_read,
        placed=reads.read,
        missing=delete_markers.of_object,
        reply_headers=read_headers.of_read,
    )


def _put_acl(name: str, scope: Scope, handler: Callable[..., Any], **more: Any) -> Operation:
    body = Body(64 * _KIB, owners_acl.read_document)
    return _write(name, scope, "PUT", "acl", canned_acls=owners_acl.ACCEPTED, body=body, handler=handler, **more)


def _preflight(scope: Scope) -> Operation:
    return Operation(
        name="CorsPreflight", scope=scope, method="OPTIONS", anonymous=True, handler=browsers.answer_preflight
    )


_SERVICE = (_read("ListBuckets", "service", handler=buckets.list_buckets),)

_BUCKET = (
    _change(
        "CreateBucket",
        "bucket",
        "PUT",
        canned_acls=owners_acl.PRIVATE,
        body=Body(64 * _KIB, xml.parse_create_bucket),
        handler=buckets.create_bucket,
    ),
    _change("DeleteBucket", "bucket", "DELETE", handler=buckets.delete_bucket),
    _read("HeadBucket", "bucket", "HEAD", anonymous=True),
    _read(
        "ListObjects",
        "bucket",
        anonymous=True,
        parameters=_PAGE | {"marker", "max-keys"},
        handler=listing.list_objects,
    ),
    _read(
        "ListObjectsV2",
        "bucket",
        anonymous=True,
        chosen_by="list-type",
        parameters=_PAGE | {"continuation-token", "fetch-owner", "list-type", "max-keys", "start-after"},
        handler=listing.list_objects_v2,
    ),
    _read(
        "ListObjectVersions",
        "bucket",
        subresource="versions",
        anonymous=True,
        parameters=_PAGE | {"key-marker", "max-keys", "version-id-marker"},
        handler=listing.list_object_versions,
    ),
    _write(
        "ListMultipartUploads",
        "bucket",
        "GET",
        "uploads",
        anonymous=True,
        parameters=_PAGE | {"key-marker", "max-uploads", "upload-id-marker"},
        handler=listing.list_multipart_uploads,
    ),
    _change(
        "DeleteObjects",
        "bucket",
        "POST",
        "delete",
        anonymous=True,
        conditions=_BYPASS,
        body=Body(4096 * _KIB, xml.parse_delete_request),
        handler=deletes.delete_objects,
    ),
    _change(
        "PostObject",
        "bucket",
        "POST",
        anonymous=True,
        headers=_DESCRIPTION | _CHECKSUM_KINDS,
        has_metadata=True,
        is_form=True,
        # The checksum among its headers would be that of the form.
        body=Body(is_stated=False),
        events=event_builder.put,
        settles=True,
        reply=form_reply.posted,
    ),
    _read("GetBucketAcl", "bucket", subresource="acl", handler=acls.get_bucket_acl),
    _put_acl("PutBucketAcl", "bucket", acls.put_bucket_acl),
    _read("GetBucketPolicy", "bucket", subresource="policy", handler=bucket_settings.get_policy),
    _read("GetBucketPolicyStatus", "bucket", subresource="policyStatus", handler=bucket_settings.get_policy_status),
    # Who opens a bucket gives away both rights, and needs both.
    _change(
        "PutBucketPolicy",
        "bucket",
        "PUT",
        "policy",
        reads=True,
        body=Body(policy_documents.LARGEST_POLICY, policy_documents.read_document),
        handler=bucket_settings.put_policy,
    ),
    _change("DeleteBucketPolicy", "bucket", "DELETE", "policy", reads=True, handler=bucket_settings.delete_policy),
    _read("GetBucketVersioning", "bucket", subresource="versioning"),
    _change(
        "PutBucketVersioning",
        "bucket",
        "PUT",
        "versioning",
        body=Body(64 * _KIB, xml.parse_versioning, xml.versioning_xml),
        handler=bucket_replication.before_versioning,
        events=event_builder.versioning_changed,
    ),
    _read("GetBucketTagging", "bucket", subresource="tagging"),
    _change(
        "PutBucketTagging",
        "bucket",
        "PUT",
        "tagging",
        body=Body(64 * _KIB, lambda body: xml.parse_tagging(body, xml.MOST_BUCKET_TAGS), xml.tagging_xml),
        events=event_builder.bucket_tagged,
    ),
    _change("DeleteBucketTagging", "bucket", "DELETE", "tagging", events=event_builder.attribute_changed),
    _read("GetBucketCors", "bucket", subresource="cors", handler=bucket_settings.get_cors),
    _change(
        "PutBucketCors",
        "bucket",
        "PUT",
        "cors",
        body=Body(256 * _KIB, parse_cors),
        handler=bucket_settings.put_cors,
    ),
    _change("DeleteBucketCors", "bucket", "DELETE", "cors", handler=bucket_settings.delete_cors),
    _read("GetObjectLockConfiguration", "bucket", subresource="object-lock"),
    _change(
        "PutObjectLockConfiguration",
        "bucket",
        "PUT",
        "object-lock",
        body=_document("ObjectLockConfiguration"),
        events=event_builder.attribute_changed,
    ),
    _read(
        "GetBucketLifecycleConfiguration",
        "bucket",
        subresource="lifecycle",
        handler=bucket_settings.get_lifecycle,
    ),
    _change(
        "PutBucketLifecycleConfiguration",
        "bucket",
        "PUT",
        "lifecycle",
        # What is allowed in it depends on the settings.
        body=Body(1024 * _KIB, bytes),
        handler=bucket_settings.put_lifecycle,
    ),
    _change("DeleteBucketLifecycle", "bucket", "DELETE", "lifecycle", handler=bucket_settings.delete_lifecycle),
    _read("GetBucketReplication", "bucket", subresource="replication", handler=bucket_replication.get_replication),
    # Who has a bucket replicated has all of it read.
    _change(
        "PutBucketReplication",
        "bucket",
        "PUT",
        "replication",
        reads=True,
        # What is allowed in it depends on the locations.
        body=Body(2048 * _KIB, bytes),
        handler=bucket_replication.put_replication,
    ),
    _change(
        "DeleteBucketReplication",
        "bucket",
        "DELETE",
        "replication",
        reads=True,
        handler=bucket_replication.delete_replication,
    ),
    *(
        _read(
            answer.operation,
            "bucket",
            subresource=answer.subresource,
            chosen_by=answer.chosen_by,
            handler=bucket_settings.fixed(answer),
        )
        for answer in FIXED_ANSWERS
    ),
    *(
        _write(
            answer.restated_by,
            "bucket",
            "PUT",
            answer.subresource,
            body=_document(answer.root),
            handler=bucket_settings.restated(answer),
        )
        for answer in FIXED_ANSWERS
        if answer.restated_by
    ),
    _preflight("bucket"),
)

_OBJECT = (
    _shown("GetObject", "GET"),
    _shown("HeadObject", "HEAD"),
    _change(
        "PutObject",
        "object",
        "PUT",
        anonymous=True,
        headers=_DESCRIPTION | _CONDITIONS_OF_WRITES | _CHECKSUM_KINDS,
        has_metadata=True,
        canned_acls=owners_acl.ACCEPTED,
        body=DATA,
        handler=folders.before_put,
        events=event_builder.put,
        settles=True,
        reply_headers=expiration.of_change,
    ),
    _copy(
        "CopyObject",
        logs_events=True,
        headers=_DESCRIPTION
        | _CONDITIONS_OF_WRITES
        | {b"x-amz-checksum-algorithm", b"x-amz-metadata-directive", b"x-amz-tagging-directive"},
        has_metadata=True,
        canned_acls=owners_acl.ACCEPTED,
        handler=folders.before_put,
        events=event_builder.copied_or_completed,
        settles=True,
        reply_headers=expiration.of_change,
    ),
    _change(
        "DeleteObject",
        "object",
        "DELETE",
        anonymous=True,
        parameters=_VERSION,
        headers=_BYPASS | {b"if-match"},
        conditions=delete_conditions.CONDITIONS,
        handler=deletes.delete_object,
        placed=deleting.delete_object,
        events=event_builder.deleted,
        settles=True,
    ),
    _change(
        "CreateMultipartUpload",
        "object",
        "POST",
        "uploads",
        anonymous=True,
        headers=_DESCRIPTION | _CHECKSUM_KINDS,
        has_metadata=True,
        canned_acls=owners_acl.ACCEPTED,
        events=upload_notes.upload_started,
    ),
    _write(
        "UploadPart",
        "object",
        "PUT",
        "uploadId",
        anonymous=True,
        parameters=_UPLOAD | {"partNumber"},
        uploads_part=True,
        headers=_CUSTOMER_KEY | _CHECKSUM_KINDS,
        body=DATA,
        events=upload_notes.part_uploaded,
    ),
    _copy(
        "UploadPartCopy",
        subresource="uploadId",
        parameters=_UPLOAD | {"partNumber"},
        uploads_part=True,
        headers=frozenset((b"x-amz-copy-source-range",)),
        events=upload_notes.part_uploaded,
    ),
    _change(
        "CompleteMultipartUpload",
        "object",
        "POST",
        "uploadId",
        anonymous=True,
        parameters=_UPLOAD,
        headers=_CONDITIONS_OF_WRITES | _CUSTOMER_KEY | {b"x-amz-checksum-type", b"x-amz-mp-object-size"},
        # Its checksum headers speak of the object.
        body=Body(4096 * _KIB, xml.parse_completed_parts, xml.completed_parts_xml, is_stated=False),
        handler=upload_notes.check_completion,
        events=upload_notes.upload_completed,
        settles=True,
        reply_headers=expiration.of_change,
        reply_body=replies.with_own_location,
    ),
    _change(
        "AbortMultipartUpload",
        "object",
        "DELETE",
        "uploadId",
        anonymous=True,
        parameters=_UPLOAD,
        events=upload_notes.upload_aborted,
    ),
    _write(
        "ListParts",
        "object",
        "GET",
        "uploadId",
        anonymous=True,
        parameters=_UPLOAD | {"max-parts", "part-number-marker"},
        headers=_CUSTOMER_KEY,
        handler=upload_notes.look_up,
        reply_body=upload_notes.with_checksums,
    ),
    _read(
        "GetObjectAttributes",
        "object",
        subresource="attributes",
        anonymous=True,
        parameters=_VERSION,
        headers=_CUSTOMER_KEY | {b"x-amz-object-attributes", b"x-amz-max-parts", b"x-amz-part-number-marker"},
        handler=attributes.look_up_checksum,
        placed=version_settings.get_attributes,
        missing=delete_markers.of_object,
        reply_body=attributes.with_checksum,
    ),
    _read(
        "GetObjectTagging",
        "object",
        subresource="tagging",
        anonymous=True,
        parameters=_VERSION,
        placed=version_settings.get_tagging,
        missing=delete_markers.of_object,
    ),
    _change(
        "PutObjectTagging",
        "object",
        "PUT",
        "tagging",
        anonymous=True,
        parameters=_VERSION,
        body=Body(64 * _KIB, xml.parse_tagging, xml.tagging_xml),
        placed=version_settings.change_tagging,
        events=event_builder.tagged,
        missing=delete_markers.of_object,
    ),
    _change(
        "DeleteObjectTagging",
        "object",
        "DELETE",
        "tagging",
        anonymous=True,
        parameters=_VERSION,
        placed=version_settings.change_tagging,
        events=event_builder.tagged,
        missing=delete_markers.of_object,
    ),
    _read("GetObjectAcl", "object", subresource="acl", parameters=_VERSION, handler=acls.get_object_acl),
    _put_acl("PutObjectAcl", "object", acls.put_object_acl, parameters=_VERSION),
    _read(
        "GetObjectRetention", "object", subresource="retention", parameters=_VERSION, placed=version_settings.at_stub
    ),
    _write(
        "PutObjectRetention",
        "object",
        "PUT",
        "retention",
        parameters=_VERSION,
        headers=_BYPASS,
        body=_document("Retention"),
        placed=version_settings.at_stub,
    ),
    _read(
        "GetObjectLegalHold", "object", subresource="legal-hold", parameters=_VERSION, placed=version_settings.at_stub
    ),
    _write(
        "PutObjectLegalHold",
        "object",
        "PUT",
        "legal-hold",
        parameters=_VERSION,
        body=_document("LegalHold"),
        placed=version_settings.at_stub,
    ),
    _preflight("object"),
)

# What Tidegate's own workers ask for when data has moved.
_INTERNAL = (
    _change(
        "PlaceObject",
        "object",
        "PUT",
        "tidegate-placement",
        parameters=_VERSION,
        body=Body(64 * _KIB, placing.read_request),
        handler=placing.place,
        is_internal=True,
    ),
    _change(
        "MoveObjectBack",
        "object",
        "PUT",
        "tidegate-data",
        parameters=_VERSION,
        headers=moving_back.DESCRIBED | {b"if-match"},
        has_metadata=True,
        body=DATA,
        prepare=moving_back.prepare,
        events=moving_back.moved_back,
        is_internal=True,
    ),
    _change(
        "DeleteOriginal",
        "object",
        "DELETE",
        "tidegate-original",
        parameters=_VERSION,
        handler=placing.delete_original,
        is_internal=True,
    ),
    _read(
        "DescribeObject",
        "object",
        subresource="tidegate-placement",
        parameters=_VERSION,
        handler=restoring.describe_version,
        is_internal=True,
    ),
    _change(
        "UndeleteObject",
        "object",
        "PUT",
        "tidegate-trash",
        parameters=_VERSION,
        body=Body(64 * _KIB, restoring.read_request),
        handler=restoring.undelete,
        is_internal=True,
    ),
)

TABLE = OperationTable((*_SERVICE, *_BUCKET, *_OBJECT, *_INTERNAL))
OPERATIONS = TABLE.by_name
