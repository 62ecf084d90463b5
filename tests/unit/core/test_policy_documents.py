"""Policy documents: those that mean one of the four bucket policies are understood, all others refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import permissions, policy_documents
from tidegate.core.records import BucketPolicy
from tidegate.core.s3errors import S3Error
from tidegate.gateway.operations.table import OPERATIONS

BUCKET, OBJECTS = "arn:aws:s3:::b", "arn:aws:s3:::b/*"
READ_BUCKET, READ_OBJECTS = ["s3:GetBucketLocation", "s3:ListBucket"], ["s3:GetObject"]
WRITE_BUCKET = ["s3:GetBucketLocation", "s3:ListBucketMultipartUploads"]
WRITE_OBJECTS = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListMultipartUploadParts", "s3:PutObject"]
# Under which names S3 grants what Tidegate opens to requests without a key.
ACTIONS = {
    "HeadBucket": {"s3:ListBucket"},
    "ListObjects": {"s3:ListBucket"},
    "ListObjectsV2": {"s3:ListBucket"},
    "ListObjectVersions": {"s3:ListBucketVersions"},
    "GetObject": {"s3:GetObject", "s3:GetObjectVersion"},
    "HeadObject": {"s3:GetObject", "s3:GetObjectVersion"},
    "GetObjectAttributes": {"s3:GetObjectAttributes", "s3:GetObjectVersionAttributes"},
    "GetObjectTagging": {"s3:GetObjectTagging", "s3:GetObjectVersionTagging"},
    "ListMultipartUploads": {"s3:ListBucketMultipartUploads"},
    "ListParts": {"s3:ListMultipartUploadParts"},
    "PutObject": {"s3:PutObject"},
    "PostObject": {"s3:PutObject"},
    "CreateMultipartUpload": {"s3:PutObject"},
    "UploadPart": {"s3:PutObject"},
    "CompleteMultipartUpload": {"s3:PutObject"},
    "AbortMultipartUpload": {"s3:AbortMultipartUpload"},
    "DeleteObject": {"s3:DeleteObject", "s3:DeleteObjectVersion"},
    "DeleteObjects": {"s3:DeleteObject", "s3:DeleteObjectVersion"},
    "PutObjectTagging": {"s3:PutObjectTagging", "s3:PutObjectVersionTagging"},
    "DeleteObjectTagging": {"s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging"},
    "CopyObject": {"s3:GetObject", "s3:GetObjectVersion", "s3:PutObject"},
    "UploadPartCopy": {"s3:GetObject", "s3:GetObjectVersion", "s3:PutObject"},
    "CorsPreflight": set(),
}


def statement(actions, resources, **more):
    return {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": actions, "Resource": resources} | more


def policy(*statements, **more):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)} | more).encode()


def meaning(body, bucket="b"):
    return policy_documents.meaning(policy_documents.read_document(body), bucket)


def refusal(body):
    with pytest.raises(S3Error) as refused:
        meaning(body)
    return refused.value


DOWNLOAD = (statement(READ_BUCKET, [BUCKET]), statement(READ_OBJECTS, [OBJECTS]))
UPLOAD = (statement(WRITE_BUCKET, [BUCKET]), statement(WRITE_OBJECTS, [OBJECTS]))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (policy(*DOWNLOAD), "download"),
        (policy(*UPLOAD), "upload"),
        (policy(*DOWNLOAD, *UPLOAD), "public"),
        (policy(statement(READ_BUCKET + READ_OBJECTS, [OBJECTS, BUCKET], Principal="*")), "download"),
        (
            policy(statement("s3:ListBucket", BUCKET), statement("s3:GetObject", OBJECTS, Sid="x", Condition={})),
            "download",
        ),
        (policy(statement(["S3:listbucket", "s3:GETOBJECT"], [BUCKET, OBJECTS], Principal={"AWS": "*"})), "download"),
        (policy(*DOWNLOAD, statement(["s3:GetObjectVersion", "s3:GetObjectTagging"], OBJECTS)), "download"),
        (policy(*UPLOAD, statement("s3:DeleteObjectVersion", OBJECTS), Id="mine"), "upload"),
        (policy(*DOWNLOAD, Version="2008-10-17"), "download"),
        (json.dumps({"Statement": statement(READ_BUCKET + READ_OBJECTS, [BUCKET, OBJECTS])}).encode(), "download"),
    ],
)
def test_documents_that_mean_a_policy_are_understood(body, found):
    assert meaning(body) == found


@pytest.mark.parametrize(
    ("body", "told"),
    [
        # Download would open the list of keys as well, which nobody asked for.
        (policy(statement("s3:GetObject", OBJECTS)), "s3:ListBucket"),
        (policy(statement("s3:ListBucket", BUCKET)), "s3:GetObject"),
        (policy(statement("s3:PutObject", OBJECTS)), "s3:DeleteObject"),
        (policy(*UPLOAD, statement("s3:GetObject", OBJECTS)), "s3:ListBucket"),
        (policy(*DOWNLOAD, statement("s3:PutObject", OBJECTS)), "s3:DeleteObject"),
        (policy(statement("s3:GetBucketLocation", BUCKET)), "neither"),
        (policy(statement("s3:*", [BUCKET, OBJECTS])), "s3:*"),
        (policy(statement("s3:Get*", [OBJECTS])), "s3:Get*"),
        (policy(*DOWNLOAD, statement("s3:PutBucketPolicy", BUCKET)), "s3:PutBucketPolicy"),
        (policy(*DOWNLOAD, statement("s3:PutObject", OBJECTS, Effect="Deny")), "Deny"),
        (
            policy(
                *DOWNLOAD[:1], statement("s3:GetObject", OBJECTS, Condition={"Bool": {"aws:SecureTransport": "true"}})
            ),
            "cond",
        ),
        (policy(*DOWNLOAD[:1], statement("s3:GetObject", "arn:aws:s3:::b/public/*")), "whole bucket"),
        (policy(*DOWNLOAD[:1], statement("s3:GetObject", "arn:aws:s3:::b/")), "whole bucket"),
        (
            policy(*DOWNLOAD[:1], statement("s3:GetObject", OBJECTS, Principal={"AWS": "arn:aws:iam::1:root"})),
            "everybody",
        ),
        (policy(*DOWNLOAD[:1], statement("s3:GetObject", OBJECTS, Principal={"AWS": ["*", "1"]})), "everybody"),
        (policy(*DOWNLOAD[:1], statement("s3:GetObject", OBJECTS, Principal={"Service": "*"})), "everybody"),
        (policy({"Effect": "Allow", "Principal": "*", "NotAction": "s3:PutObject", "Resource": OBJECTS}), "NotAction"),
    ],
)
def test_documents_that_mean_something_else_are_refused_with_the_reason(body, told):
    error = refusal(body)
    assert error.code == "NotImplemented"
    assert told in error.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        b"<Policy/>",
        b"[" * 15000,
        b'{"Statement":' * 1500,
        b'{"Version":NaN}',
        b'{"Version":' + b"9" * 5000 + b"}",
        policy(),
        policy("x"),
        policy(None),
        policy(*DOWNLOAD, Version="2020-01-01"),
        policy(*DOWNLOAD, Other=1),
        policy(*DOWNLOAD, Id=1),
        policy(statement(READ_OBJECTS, [OBJECTS], Effect="allow")),
        policy(statement(READ_OBJECTS, [OBJECTS], effect="Deny")),
        policy(statement(READ_OBJECTS, [])),
        policy(statement([], [OBJECTS])),
        policy(statement([1], [OBJECTS])),
        policy(statement({}, [OBJECTS])),
        policy(statement(READ_OBJECTS, [OBJECTS], Principal={})),
        policy(statement(READ_OBJECTS, [OBJECTS], Principal=None)),
        policy(statement("GetObject", OBJECTS)),
        policy(statement("ec2:RunInstances", OBJECTS)),
        policy(statement("s3:GetObject", BUCKET)),
        policy(statement("s3:ListBucket", OBJECTS)),
        policy(statement("s3:GetObject", "arn:aws:s3:::other/*")),
        policy(statement("s3:GetObject", "arn:aws:s3:::b*")),
        policy(statement("s3:GetObject", "arn:aws:s3:::*")),
        policy(statement("s3:GetObject", "*")),
        policy(statement("s3:GetObject", "b/*")),
        policy({"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject"}),
        policy(*DOWNLOAD)[:-1] + b',"Statement":[]}',
        b'{"Statement":[{"Effect":"Deny","Effect":"Allow"}]}',
    ],
)
def test_what_is_no_policy_is_malformed(body):
    assert refusal(body).code == "MalformedPolicy"


@pytest.mark.parametrize("of", [BucketPolicy.DOWNLOAD, BucketPolicy.UPLOAD, BucketPolicy.PUBLIC])
def test_a_policy_is_shown_as_a_document_that_means_it(of):
    assert meaning(policy_documents.document(of, "some.bucket-1"), "some.bucket-1") is of


@pytest.mark.parametrize("of", [BucketPolicy.DOWNLOAD, BucketPolicy.UPLOAD, BucketPolicy.PUBLIC])
def test_every_action_that_a_policy_opens_may_be_named_in_its_document(of):
    opened = {
        action
        for operation in OPERATIONS.values()
        if permissions.allowed(operation, key_policy=None, bucket_policy=of)
        for action in ACTIONS[operation.name]
    }
    at_bucket = {action for action in opened if action.startswith("s3:ListBucket")}
    everything = statement(sorted(at_bucket), BUCKET), statement(sorted(opened - at_bucket), OBJECTS)
    assert meaning(policy(*everything)) is of


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=5)
        | st.sampled_from(["*", "Allow", OBJECTS, BUCKET]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["Statement", "Effect", "Principal", "AWS", "Action", "Resource", "Condition", "x"]),
                inner,
            )
        ),
    )
)
def test_any_json_is_understood_or_refused(document):
    try:
        assert meaning(json.dumps(document).encode()) in BucketPolicy
    except S3Error as error:
        assert error.code in ("MalformedPolicy", "NotImplemented")
