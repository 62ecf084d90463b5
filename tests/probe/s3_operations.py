"""S3's operations as its documentation lists them: what names an operation, what it does, what it may carry.

The table shares nothing with the package. It is what a backend is entitled to read in a request.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Scope = Literal["service", "bucket", "object"]
Effect = Literal["none", "read", "write"]


class Known(NamedTuple):
    """`event` is the kind of event that the metadata log owes for a success; "" where it owes none."""

    name: str
    method: str
    scope: Scope
    subresource: str
    effect: Effect
    parameters: frozenset[str] = frozenset()
    headers: frozenset[str] = frozenset()
    event: str = ""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whoever speaks HTTP or signs may send these. What browsers say to a gateway is none of a store's business.
COMMON_HEADERS = _names(
    "host date authorization x-amz-date x-amz-content-sha256 content-length transfer-encoding connection expect "
    "user-agent accept accept-encoding content-type content-md5 x-amz-expected-bucket-owner x-amz-request-payer"
)
_CHECKSUMS = _names(
    "x-amz-sdk-checksum-algorithm x-amz-checksum-algorithm x-amz-checksum-type x-amz-checksum-crc32 "
    "x-amz-checksum-crc32c x-amz-checksum-crc64nvme x-amz-checksum-sha1 x-amz-checksum-sha256"
)
_STREAMED = _CHECKSUMS | _names("x-amz-decoded-content-length x-amz-trailer content-encoding")
_CUSTOMER_KEY = _names(
    "x-amz-server-side-encryption-customer-algorithm x-amz-server-side-encryption-customer-key "
    "x-amz-server-side-encryption-customer-key-md5"
)
_ACL = _names(
    "x-amz-acl x-amz-grant-full-control x-amz-grant-read x-amz-grant-read-acp x-amz-grant-write x-amz-grant-write-acp"
)
_WRITTEN = (_CUSTOMER_KEY | _ACL) - {"x-amz-grant-write"} | _names(
    "cache-control content-disposition content-encoding content-language expires x-amz-storage-class x-amz-tagging "
    "x-amz-website-redirect-location x-amz-object-lock-mode x-amz-object-lock-retain-until-date "
    "x-amz-object-lock-legal-hold x-amz-server-side-encryption x-amz-server-side-encryption-aws-kms-key-id "
    "x-amz-server-side-encryption-context x-amz-server-side-encryption-bucket-key-enabled x-amz-meta-*"
)
_COPIED = _names(
    "x-amz-copy-source x-amz-copy-source-if-match x-amz-copy-source-if-none-match "
    "x-amz-copy-source-if-modified-since x-amz-copy-source-if-unmodified-since "
    "x-amz-copy-source-server-side-encryption-customer-algorithm "
    "x-amz-copy-source-server-side-encryption-customer-key x-amz-copy-source-server-side-encryption-customer-key-md5 "
    "x-amz-source-expected-bucket-owner"
)
_READ = _CUSTOMER_KEY | _names("range if-match if-none-match if-modified-since if-unmodified-since x-amz-checksum-mode")
_RETURNED = _names(
    "versionId partNumber response-cache-control response-content-disposition response-content-encoding "
    "response-content-language response-content-type response-expires"
)
_IF = _names("if-match if-none-match")
_DELETED = _names(
    "x-amz-mfa x-amz-bypass-governance-retention if-match x-amz-if-match-last-modified-time x-amz-if-match-size"
)
_LISTED = _names("delimiter encoding-type max-keys prefix")
_OPTIONAL = _names("x-amz-optional-object-attributes")
_VERSION = _names("versionId")
_UPLOAD = _names("uploadId")

# What can be done with a bucket's setting: the verb, its method, what it does, the event it owes.
_ON_SETTINGS: tuple[tuple[str, str, Effect, str], ...] = (
    ("Get", "GET", "read", ""),
    ("Put", "PUT", "write", "bucket-attributes"),
    ("Delete", "DELETE", "write", "bucket-attributes"),
)

KNOWN: tuple[Known, ...] = (
    Known("ListBuckets", "GET", "service", "", "read", _names("bucket-region continuation-token max-buckets prefix")),
    Known(
        "CreateBucket",
        "PUT",
        "bucket",
        "",
        "write",
        headers=_names("x-amz-acl x-amz-bucket-object-lock-enabled x-amz-object-ownership"),
        event="bucket-created",
    ),
    Known("DeleteBucket", "DELETE", "bucket", "", "write", event="bucket-deleted"),
    Known("HeadBucket", "HEAD", "bucket", "", "read"),
    Known("ListObjects", "GET", "bucket", "", "read", _LISTED | {"marker"}, _OPTIONAL),
    Known(
        "ListObjectVersions",
        "GET",
        "bucket",
        "versions",
        "read",
        _LISTED | _names("key-marker version-id-marker"),
        _OPTIONAL,
    ),
    Known(
        "ListMultipartUploads",
        "GET",
        "bucket",
        "uploads",
        "read",
        _names("delimiter encoding-type key-marker max-uploads prefix upload-id-marker"),
    ),
    Known("DeleteObjects", "POST", "bucket", "delete", "write", headers=_CHECKSUMS | _DELETED, event="delete"),
    Known("PostObject", "POST", "bucket", "", "write", event="put"),
    Known("GetBucketLocation", "GET", "bucket", "location", "read"),
    Known("GetBucketAcl", "GET", "bucket", "acl", "read"),
    Known("GetBucketRequestPayment", "GET", "bucket", "requestPayment", "read"),
    Known("PutBucketRequestPayment", "PUT", "bucket", "requestPayment", "write"),
    Known("GetObject", "GET", "object", "", "read", _RETURNED, _READ),
    Known("HeadObject", "HEAD", "object", "", "read", _RETURNED, _READ),
    Known(
        "PutObject",
        "PUT",
        "object",
        "",
        "write",
        headers=_WRITTEN | _STREAMED | _IF | {"x-amz-write-offset-bytes"},
        event="put",
    ),
    Known("DeleteObject", "DELETE", "object", "", "write", _VERSION, _DELETED, "delete"),
    Known(
        "CreateMultipartUpload",
        "POST",
        "object",
        "uploads",
        "write",
        headers=_WRITTEN | _CHECKSUMS,
        event="upload-started",
    ),
    Known("UploadPart", "PUT", "object", "uploadId", "write", _names("partNumber"), _STREAMED | _CUSTOMER_KEY),
    Known(
        "CompleteMultipartUpload",
        "POST",
        "object",
        "uploadId",
        "write",
        headers=_CHECKSUMS | _CUSTOMER_KEY | _IF | {"x-amz-mp-object-size"},
        event="put",
    ),
    Known("AbortMultipartUpload", "DELETE", "object", "uploadId", "write", event="upload-aborted"),
    Known(
        "ListParts",
        "GET",
        "object",
        "uploadId",
        "read",
        _names("encoding-type max-parts part-number-marker"),
        _CUSTOMER_KEY,
    ),
    Known(
        "GetObjectAttributes",
        "GET",
        "object",
        "attributes",
        "read",
        _VERSION,
        _CUSTOMER_KEY | _names("x-amz-object-attributes x-amz-max-parts x-amz-part-number-marker"),
    ),
    Known("GetObjectAcl", "GET", "object", "acl", "read", _VERSION),
    Known("GetObjectTagging", "GET", "object", "tagging", "read", _VERSION),
    Known("PutObjectTagging", "PUT", "object", "tagging", "write", _VERSION, _CHECKSUMS, "tagging"),
    Known("DeleteObjectTagging", "DELETE", "object", "tagging", "write", _VERSION, event="tagging"),
    Known("GetObjectRetention", "GET", "object", "retention", "read", _VERSION),
    Known(
        "PutObjectRetention",
        "PUT",
        "object",
        "retention",
        "write",
        _VERSION,
        _CHECKSUMS | {"x-amz-bypass-governance-retention"},
    ),
    Known("GetObjectLegalHold", "GET", "object", "legal-hold", "read", _VERSION),
    Known("PutObjectLegalHold", "PUT", "object", "legal-hold", "write", _VERSION, _CHECKSUMS),
    Known("RenameObject", "PUT", "object", "renameObject", "write", headers=_names("x-amz-rename-source")),
    Known("RestoreObject", "POST", "object", "restore", "write", _VERSION),
    Known("SelectObjectContent", "POST", "object", "select", "read", _names("select-type")),
    Known("GetObjectTorrent", "GET", "object", "torrent", "read"),
    Known("GetObjectAnnotation", "GET", "object", "annotation", "read", _names("annotationName versionId")),
    Known("PutObjectAnnotation", "PUT", "object", "annotation", "write", _names("annotationName versionId")),
    Known("DeleteObjectAnnotation", "DELETE", "object", "annotation", "write", _names("annotationName versionId")),
    Known("UpdateObjectEncryption", "PUT", "object", "encryption", "write", _VERSION),
    Known("PutObjectAcl", "PUT", "object", "acl", "write", _VERSION, _ACL),
    Known("PutBucketAcl", "PUT", "bucket", "acl", "write", headers=_ACL),
    Known("CorsPreflight", "OPTIONS", "bucket", "", "none"),
    Known("CorsPreflight", "OPTIONS", "object", "", "none"),
    *(
        Known(f"{verb}Bucket:{name}", method, "bucket", name, effect, frozenset({"id"}), _CHECKSUMS, event)
        for name in sorted(
            _names(
                "abac accelerate analytics cors encryption intelligent-tiering inventory lifecycle logging metrics "
                "metadataAnnotationTable metadataConfiguration metadataTable notification object-lock "
                "ownershipControls policy policyStatus publicAccessBlock replication session tagging versioning website"
            )
        )
        for verb, method, effect, event in _ON_SETTINGS
    ),
)
# Other operations under the same method and sub-resource, told apart by a parameter or a header.
LIST_OBJECTS_V2 = Known(
    "ListObjectsV2",
    "GET",
    "bucket",
    "",
    "read",
    _LISTED | _names("list-type continuation-token fetch-owner start-after"),
    _OPTIONAL,
)
COPY_OBJECT = Known(
    "CopyObject",
    "PUT",
    "object",
    "",
    "write",
    headers=_WRITTEN | _COPIED | _CHECKSUMS | _IF | _names("x-amz-metadata-directive x-amz-tagging-directive"),
    event="put",
)
UPLOAD_PART_COPY = Known(
    "UploadPartCopy",
    "PUT",
    "object",
    "uploadId",
    "write",
    _names("partNumber"),
    _COPIED | _CUSTOMER_KEY | {"x-amz-copy-source-range"},
)

BY_REQUEST = {(known.method, known.scope, known.subresource): known for known in KNOWN}
SUBRESOURCES = frozenset(known.subresource for known in KNOWN if known.subresource)
PLAIN_NAMES = {  # the table's short names of bucket settings, as operations are called
    "GetBucket:lifecycle": "GetBucketLifecycleConfiguration",
    "PutBucket:lifecycle": "PutBucketLifecycleConfiguration",
    "DeleteBucket:lifecycle": "DeleteBucketLifecycle",
    "GetBucket:object-lock": "GetObjectLockConfiguration",
    "PutBucket:object-lock": "PutObjectLockConfiguration",
    **{
        f"{verb}Bucket:{name}": f"{verb}Bucket{name.capitalize()}"
        for verb in ("Get", "Put", "Delete")
        for name in ("versioning", "tagging", "cors", "encryption", "policy", "replication", "website")
    },
}


def documented_name(known: Known) -> str:
    return PLAIN_NAMES.get(known.name, known.name)
