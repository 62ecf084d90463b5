"""ACLs: what says that the owner has full control is accepted, everything else refused."""

import pytest

from tidegate.core import owners_acl
from tidegate.core.s3errors import S3Error

TYPE = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type='
OWNER = "<Owner><ID>me</ID><DisplayName>me</DisplayName></Owner>"
MINE = f'<Grant><Grantee {TYPE}"CanonicalUser"><ID>me</ID></Grantee><Permission>FULL_CONTROL</Permission></Grant>'
GROUP = f'<Grant><Grantee {TYPE}"Group"><URI>all</URI></Grantee><Permission>READ</Permission></Grant>'


def code_of(call, *given):
    with pytest.raises(S3Error) as refused:
        call(*given)
    return refused.value.code


def put(body, headers=None, owner="me"):
    owners_acl.check_request(headers or {}, owners_acl.read_document(body.encode()), owner)


def document(*grants, owner=OWNER):
    return f"<AccessControlPolicy>{owner}<AccessControlList>{''.join(grants)}</AccessControlList></AccessControlPolicy>"


@pytest.mark.parametrize("headers", [{}, {b"x-amz-acl": b"private"}, {b"x-amz-acl": b"bucket-owner-full-control"}])
def test_headers_that_say_what_is_the_case_are_accepted(headers):
    owners_acl.check_headers(headers, owners_acl.ACCEPTED)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({b"x-amz-acl": b"public-read"}, "AccessControlListNotSupported"),
        ({b"x-amz-acl": b"log-delivery-write"}, "AccessControlListNotSupported"),
        ({b"x-amz-acl": b"Private"}, "InvalidArgument"),
        ({b"x-amz-acl": b""}, "InvalidArgument"),
        ({b"x-amz-grant-read": b'id="me"'}, "AccessControlListNotSupported"),
        ({b"x-amz-acl": b"private", b"x-amz-grant-full-control": b"x"}, "AccessControlListNotSupported"),
    ],
)
def test_other_headers_are_refused(headers, code):
    assert code_of(owners_acl.check_headers, headers, owners_acl.ACCEPTED) == code


def test_the_owners_acl_may_be_put_again():
    put(owners_acl.owners_acl_xml("me").decode())
    put(owners_acl.owners_acl_xml('a<&">b').decode(), owner='a<&">b')
    put(document(MINE))
    put(document(MINE, owner=""))
    put("", {b"x-amz-acl": b"private"})


@pytest.mark.parametrize(
    "body",
    [
        document(),
        document(MINE, MINE),
        document(MINE, GROUP),
        document(GROUP),
        document(MINE).replace("me<", "you<"),
        document(MINE, owner=OWNER.replace("me<", "you<")),
        document(MINE).replace("FULL_CONTROL", "READ"),
        document(MINE).replace("CanonicalUser", "Group"),
        document(MINE).replace("<Grant>", "<Grunt>").replace("</Grant>", "</Grunt>"),
        document(MINE.replace("</Grantee>", "<URI>all</URI></Grantee>")),
        document(MINE).replace("</Permission>", "</Permission><Permission>READ</Permission>"),
        f"<AccessControlPolicy>{OWNER}</AccessControlPolicy>",
        "<AccessControlPolicy/>",
    ],
)
def test_any_other_acl_is_refused(body):
    assert code_of(put, body) == "AccessControlListNotSupported"


def test_an_acl_is_put_by_a_header_or_by_a_document():
    assert code_of(put, "") == "MissingSecurityHeader"
    assert code_of(put, document(MINE), {b"x-amz-acl": b"private"}) == "UnexpectedContent"
    assert code_of(put, "<AccessControlPolicy>") == "MalformedXML"
    assert code_of(put, "<Tagging/>") == "MalformedXML"


def test_a_new_bucket_cannot_be_given_acls():
    owners_acl.check_ownership({})
    owners_acl.check_ownership({b"x-amz-object-ownership": b"BucketOwnerEnforced"})
    assert code_of(owners_acl.check_ownership, {b"x-amz-object-ownership": b"ObjectWriter"}) == "NotImplemented"
    assert code_of(owners_acl.check_ownership, {b"x-amz-object-ownership": b"mine"}) == "InvalidArgument"
