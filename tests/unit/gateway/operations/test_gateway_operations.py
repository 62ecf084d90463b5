"""The table of operations: each combination gives one operation or the right refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.operations import passed_on, read_query
from tidegate.core.s3errors import S3Error
from tidegate.gateway.operations.table import OPERATIONS, TABLE

COPY = {b"x-amz-copy-source": b"/b/k"}
FORM = {b"content-type": b"multipart/form-data; boundary=x"}


def scope_of(bucket, key):
    return "object" if key else "bucket" if bucket else "service"


def found(method, target, headers=None):
    path, _, query = target.partition("?")
    bucket, _, key = path[1:].partition("/")
    return TABLE.find(method, scope_of(bucket, key), read_query(query.encode()), headers or {})


def name_of(method, target, headers=None):
    return found(method, target, headers)[0].name


def code_of(method, target, headers=None):
    with pytest.raises(S3Error) as refused:
        name_of(method, target, headers)
    return refused.value.code


@pytest.mark.parametrize(
    ("method", "target", "name"),
    [
        ("GET", "/", "ListBuckets"),
        ("GET", "/?x-id=ListBuckets", "ListBuckets"),
        ("PUT", "/b", "CreateBucket"),
        ("PUT", "/b/", "CreateBucket"),
        ("DELETE", "/b", "DeleteBucket"),
        ("HEAD", "/b", "HeadBucket"),
        ("GET", "/b", "ListObjects"),
        ("GET", "/b?prefix=acl&delimiter=/", "ListObjects"),
        ("GET", "/b?list-type=2&prefix=x", "ListObjectsV2"),
        ("GET", "/b?versions&prefix=x", "ListObjectVersions"),
        ("GET", "/b?uploads", "ListMultipartUploads"),
        ("GET", "/b?uploads=", "ListMultipartUploads"),
        ("GET", "/b?location", "GetBucketLocation"),
        ("GET", "/b?acl", "GetBucketAcl"),
        ("PUT", "/b?acl", "PutBucketAcl"),
        ("GET", "/b?policy", "GetBucketPolicy"),
        ("PUT", "/b?policy", "PutBucketPolicy"),
        ("DELETE", "/b?policy", "DeleteBucketPolicy"),
        ("GET", "/b?policyStatus", "GetBucketPolicyStatus"),
        ("GET", "/b?encryption", "GetBucketEncryption"),
        ("GET", "/b?analytics", "ListBucketAnalyticsConfigurations"),
        ("GET", "/b?analytics&id=a", "GetBucketAnalyticsConfiguration"),
        ("GET", "/b?id=a&metrics", "GetBucketMetricsConfiguration"),
        ("GET", "/b?ownershipControls", "GetBucketOwnershipControls"),
        ("PUT", "/b?ownershipControls", "PutBucketOwnershipControls"),
        ("PUT", "/b?requestPayment", "PutBucketRequestPayment"),
        ("GET", "/b?requestPayment", "GetBucketRequestPayment"),
        ("GET", "/b?versioning", "GetBucketVersioning"),
        ("PUT", "/b?versioning", "PutBucketVersioning"),
        ("GET", "/b?tagging", "GetBucketTagging"),
        ("PUT", "/b?tagging", "PutBucketTagging"),
        ("DELETE", "/b?tagging", "DeleteBucketTagging"),
        ("GET", "/b?cors", "GetBucketCors"),
        ("PUT", "/b?cors", "PutBucketCors"),
        ("DELETE", "/b?cors", "DeleteBucketCors"),
        ("GET", "/b?lifecycle", "GetBucketLifecycleConfiguration"),
        ("PUT", "/b?l%69fecycle", "PutBucketLifecycleConfiguration"),
        ("DELETE", "/b?lifecycle", "DeleteBucketLifecycle"),
        ("GET", "/b?object-lock", "GetObjectLockConfiguration"),
        ("PUT", "/b?object-lock", "PutObjectLockConfiguration"),
        ("POST", "/b?delete", "DeleteObjects"),
        ("OPTIONS", "/b", "CorsPreflight"),
        ("OPTIONS", "/b/k?uploads&tagging", "CorsPreflight"),
        ("GET", "/b/k", "GetObject"),
        ("GET", "/b/k?versionId=3&partNumber=1&response-content-type=x", "GetObject"),
        ("GET", "/b/k?X-Amz-Signature=acl&x-id=GetObject", "GetObject"),
        ("GET", "/b/k?unknown&other=tagging", "GetObject"),
        ("GET", "/b/k?x;tagging", "GetObject"),
        ("GET", "/b/k?Tagging", "GetObject"),
        ("HEAD", "/b/k?versionId=3", "HeadObject"),
        ("PUT", "/b/k", "PutObject"),
        ("PUT", "/b/k?x-id=PutObject", "PutObject"),
        ("DELETE", "/b/k?versionId=3", "DeleteObject"),
        ("POST", "/b/k?uploads", "CreateMultipartUpload"),
        ("PUT", "/b/k?uploadId=u&partNumber=1", "UploadPart"),
        ("PUT", "/b/k?partNumber=10000&uploadId=u", "UploadPart"),
        ("POST", "/b/k?uploadId=u", "CompleteMultipartUpload"),
        ("DELETE", "/b/k?uploadId=u", "AbortMultipartUpload"),
        ("GET", "/b/k?uploadId=u&max-parts=2", "ListParts"),
        ("GET", "/b/k?attributes", "GetObjectAttributes"),
        ("GET", "/b/k?tagging&versionId=3", "GetObjectTagging"),
        ("PUT", "/b/k?tagging", "PutObjectTagging"),
        ("PUT", "/b/k?t%61gging", "PutObjectTagging"),
        ("DELETE", "/b/k?tagging", "DeleteObjectTagging"),
        ("GET", "/b/k?acl", "GetObjectAcl"),
        ("PUT", "/b/k?acl", "PutObjectAcl"),
        ("GET", "/b/k?retention", "GetObjectRetention"),
        ("PUT", "/b/k?retention", "PutObjectRetention"),
        ("GET", "/b/k?legal-hold", "GetObjectLegalHold"),
        ("PUT", "/b/k?legal-hold", "PutObjectLegalHold"),
    ],
)
def test_request_is_recognised(method, target, name):
    assert name_of(method, target) == name


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/b/k", "CopyObject"),
        ("/b/k?x-id=CopyObject", "CopyObject"),
        ("/b/k?uploadId=u&partNumber=2", "UploadPartCopy"),
        ("/b/k?tagging", "PutObjectTagging"),
        ("/b", "CreateBucket"),
        ("/b?tagging", "PutBucketTagging"),
    ],
)
def test_copy_source_makes_a_put_a_copy(target, name):
    assert name_of("PUT", target, COPY) == name


def test_a_form_is_posted_to_a_bucket_and_put_to_the_backend():
    operation, parameters = found("POST", "/b?x=y", FORM)
    assert (operation.name, operation.backend_method, parameters) == ("PostObject", "PUT", {})
    assert name_of("POST", "/b", {b"content-type": b'Multipart/Form-Data ;boundary="x"'}) == "PostObject"
    assert name_of("POST", "/b?delete", FORM) == "DeleteObjects"
    assert code_of("POST", "/b") == "PreconditionFailed"
    assert code_of("POST", "/b", {b"content-type": b"multipart/form-database"}) == "PreconditionFailed"
    assert code_of("POST", "/b", FORM | {b"if-none-match": b"*"}) == "NotImplemented"
    assert code_of("POST", "/b?versionId=v", FORM) == "InvalidArgument"
    assert code_of("POST", "/b/k", FORM) == "MethodNotAllowed"


UNSUPPORTED = [
    "accelerate",
    "analytics",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "logging",
    "metrics",
    "metadataConfiguration",
    "metadataTable",
    "notification",
    "publicAccessBlock",
    "website",
]


@pytest.mark.parametrize("subresource", UNSUPPORTED)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_change_of_an_unsupported_bucket_subresource_is_not_implemented(method, subresource):
    assert code_of(method, f"/b?{subresource}") == "NotImplemented"


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("DELETE", "/b?ownershipControls", {}),
        ("PUT", "/b/k?annotation&annotationName=a", {}),
        ("GET", "/b/k?annotation", {}),
        ("DELETE", "/b/k?annotation", {}),
        ("PUT", "/b?metadataAnnotationTable", {}),
        ("PUT", "/b/k?encryption", {}),
        ("GET", "/b/k?encryption", {}),
        ("POST", "/b/k?select&select-type=2", {}),
        ("POST", "/b/k?restore", {}),
        ("GET", "/b/k?torrent", {}),
        ("PUT", "/b/k?renameObject", {}),
        ("GET", "/b?session", {}),
        ("PUT", "/b/k?website", {}),
        ("PUT", "/b?w%65bsite", {}),
    ],
)
def test_unsupported_request_is_not_implemented(method, target, headers):
    assert code_of(method, target, headers) == "NotImplemented"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", "/"),
        ("DELETE", "/"),
        ("POST", "/"),
        ("POST", "/b/k"),
        ("PATCH", "/b/k"),
        ("TRACE", "/b"),
        ("get", "/b/k"),
        ("DELETE", "/b?versioning"),
        ("GET", "/b?delete"),
        ("HEAD", "/b/k?tagging"),
        ("PUT", "/b/k?uploads"),
        ("PUT", "/b/k?versioning"),
        ("PUT", "/b/k?policy"),
        ("PUT", "/b?policyStatus"),
        ("DELETE", "/b?requestPayment"),
        ("DELETE", "/b/k?acl"),
        ("GET", "/?acl"),
    ],
)
def test_method_that_the_resource_does_not_know_is_not_allowed(method, target):
    assert code_of(method, target) == "MethodNotAllowed"


def test_refused_method_names_those_that_are_allowed():
    with pytest.raises(S3Error) as refused:
        name_of("POST", "/b/k?tagging")
    assert refused.value.headers == {"Allow": "DELETE, GET, PUT"}


@pytest.mark.parametrize("query", ["acl&tagging", "acl&acl", "uploads&uploadId=1", "uploadId=1&uploadId=2"])
def test_conflicting_subresources_are_refused(query):
    assert code_of("GET", f"/b/k?{query}") == "InvalidRequest"


@pytest.mark.parametrize(
    "query",
    [
        "uploadId=u",
        "uploadId=u&partNumber=0",
        "uploadId=u&partNumber=10001",
        "uploadId=u&partNumber=x",
        "uploadId=u&partNumber=1&partNumber=2",
        "uploadId=u&partNumber=" + "1" * 5000,
        "partNumber=1",
    ],
)
def test_upload_of_a_part_needs_its_upload_and_a_number(query):
    assert code_of("PUT", f"/b/k?{query}") == "InvalidArgument"


def test_unknown_list_type_is_refused():
    assert code_of("GET", "/b?list-type=3") == "InvalidArgument"
    assert code_of("GET", "/b?list-type=2&list-type=2") == "InvalidArgument"


def test_every_operation_stands_under_its_own_name():
    assert all(operation.name == name for name, operation in OPERATIONS.items())
    assert {"CopyObject", "UploadPartCopy", "ListObjectsV2", "ListBuckets"} <= OPERATIONS.keys()


def test_copies_and_changes_of_policy_or_replication_need_both_rights_and_only_a_preflight_needs_none():
    assert {o.name for o in OPERATIONS.values() if o.reads and o.writes} == {
        *("CopyObject", "UploadPartCopy", "PutBucketPolicy", "DeleteBucketPolicy"),
        *("PutBucketReplication", "DeleteBucketReplication"),
    }
    assert {o.name for o in OPERATIONS.values() if not o.reads and not o.writes} == {"CorsPreflight"}


def test_logged_operations_are_those_that_change_what_a_bucket_holds_or_is():
    assert {o.name for o in OPERATIONS.values() if o.logs_events} == {
        *("PlaceObject", "MoveObjectBack", "DeleteOriginal", "UndeleteObject"),
        *("CreateBucket", "DeleteBucket", "PutBucketVersioning", "PutBucketTagging", "DeleteBucketTagging"),
        *("PutBucketCors", "DeleteBucketCors", "PutBucketReplication", "DeleteBucketReplication"),
        "PutObjectLockConfiguration",
        *("PutBucketLifecycleConfiguration", "DeleteBucketLifecycle", "PutBucketPolicy", "DeleteBucketPolicy"),
        *("PutObject", "PostObject", "CopyObject", "DeleteObject", "DeleteObjects"),
        *("CreateMultipartUpload", "CompleteMultipartUpload", "AbortMultipartUpload"),
        *("PutObjectTagging", "DeleteObjectTagging"),
    }


@given(
    st.sampled_from(["GET", "PUT", "POST", "HEAD", "DELETE", "OPTIONS", "PATCH", "é"]),
    st.sampled_from(["", "b"]),
    st.sampled_from(["", "k"]),
    st.binary(max_size=60),
)
def test_any_request_is_recognised_or_refused(method, bucket, key, query):
    try:
        operation, _ = TABLE.find(method, scope_of(bucket, key if bucket else ""), read_query(query), {})
    except S3Error as refused:
        assert refused.status in (400, 405, 412, 501)
    else:
        assert operation.scope == ("service" if not bucket else "object" if key else "bucket")


@pytest.mark.parametrize(
    ("method", "target", "parameters"),
    [
        ("GET", "/b/k?x;tagging&versionId=a%2Bb&x-id=GetObject&versionid=3", {"versionId": "a+b"}),
        ("GET", "/b?prefix=a+b%26c;d&marker=&fetch-owner=true&X-Amz-Date=1", {"prefix": "a b&c;d", "marker": ""}),
        ("GET", "/b?list-type=2&fetch-owner=true", {"list-type": "2", "fetch-owner": "true"}),
        ("PUT", "/b/k?uploadId=u&partNumber=7&acl;x", {"uploadId": "u", "partNumber": "7"}),
        ("PUT", "/b/k?tagging=x&prefix=y", {}),
        ("OPTIONS", "/b/k?versionId=3", {}),
    ],
)
def test_only_the_parameters_that_the_operation_knows_count(method, target, parameters):
    assert found(method, target)[1] == parameters


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", "/b/k?versionId=3"),
        ("GET", "/b?versionId=3"),
        ("DELETE", "/b/k?partNumber=3"),
        ("GET", "/b/k?versionId="),
        ("GET", "/b/k?versionId=1&versionId=2"),
        ("GET", "/b?prefix=a&prefix=b"),
        ("POST", "/b/k?uploadId="),
        ("PUT", "/b/k?partNumber=1&uploadId=%0A"),
        ("DELETE", "/b/k?uploadId=u%0D%0A"),
        ("GET", "/b/k?versionId=%C3%A9"),
        ("GET", "/b/k?versionId=a%20b"),
    ],
)
def test_a_parameter_that_says_what_is_meant_is_never_left_out_or_chosen_from(method, target):
    assert code_of(method, target) == "InvalidArgument"


@pytest.mark.parametrize(
    ("method", "target", "header"),
    [
        ("PUT", "/b/k", b"x-amz-write-offset-bytes"),
        ("PUT", "/b/k", b"if-unmodified-since"),
        ("DELETE", "/b/k?uploadId=u", b"x-amz-if-match-initiated-time"),
        ("PUT", "/b/k?tagging", b"if-match"),
        ("POST", "/b?delete", b"if-match"),
        ("PUT", "/b/k", b"x-amz-copy-source-if-match"),
    ],
)
def test_a_condition_of_a_change_that_would_not_be_heeded_is_refused(method, target, header):
    assert code_of(method, target, {header: b"x"}) == "NotImplemented"


def test_only_listed_headers_are_passed_on():
    given = {
        b"host": b"h",
        b"content-type": b"text/plain",
        b"x-amz-meta-a": b"1",
        b"x-amz-acl": b"public-read",
        b"authorization": b"secret",
        b"x-http-method-override": b"DELETE",
        b"origin": b"http://there",
        b"range": b"bytes=0-1",
    }
    assert dict(passed_on(OPERATIONS["PutObject"], given)) == {
        b"content-type": b"text/plain",
        b"x-amz-meta-a": b"1",
    }
    assert dict(passed_on(OPERATIONS["GetObject"], given)) == {b"range": b"bytes=0-1"}
    assert dict(passed_on(OPERATIONS["DeleteObject"], given)) == {}


def test_every_change_has_its_own_handler_or_its_events():
    for operation in OPERATIONS.values():
        assert not operation.logs_events or operation.events is not None or operation.handler is not None


def test_every_document_that_is_forwarded_is_written_anew():
    for operation in OPERATIONS.values():
        if operation.body is not None and operation.body.limit is not None:
            assert operation.body.write is not None or operation.handler is not None
