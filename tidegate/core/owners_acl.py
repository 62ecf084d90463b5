"""The one ACL that buckets and objects have, as in S3 where ACLs are switched off: the owner has full control.

Whatever says just that is accepted and changes nothing; everything else is refused, so that nobody believes in a grant
that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from tidegate.core.documents import local_name, request_document
from tidegate.core.s3errors import S3Error
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, element

OWNERSHIP = "BucketOwnerEnforced"
PRIVATE = frozenset((b"private",))
ACCEPTED = PRIVATE | {b"bucket-owner-full-control"}
_OTHER_ACLS = frozenset(
    (
        *(b"public-read", b"public-read-write", b"authenticated-read", b"aws-exec-read", b"bucket-owner-read"),
        *(b"bucket-owner-full-control", b"log-delivery-write"),
    )
)
_CANNED = b"x-amz-acl"
_GRANTS = frozenset(b"x-amz-grant-" + name for name in (b"full-control", b"read", b"read-acp", b"write", b"write-acp"))
_OWNERSHIP = b"x-amz-object-ownership"
_ACL_OWNERSHIPS = frozenset((b"BucketOwnerPreferred", b"ObjectWriter"))
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
_GRANTEE_FIELDS = frozenset(("ID", "DisplayName"))


def check_headers(headers: Mapping[bytes, bytes], accepted: frozenset[bytes]) -> None:
    """`accepted` are the canned ACLs that say what is the case anyway."""
    canned = headers.get(_CANNED)
    if canned is not None and canned not in accepted:
        if canned not in _OTHER_ACLS:
            raise S3Error(
                "InvalidArgument", "There is no canned ACL of that name.", fields={"ArgumentName": "x-amz-acl"}
            )
        raise S3Error("AccessControlListNotSupported")
    if not _GRANTS.isdisjoint(headers):
        raise S3Error("AccessControlListNotSupported")


def check_ownership(headers: Mapping[bytes, bytes]) -> None:
    """A new bucket cannot be given ACLs either."""
    stated = headers.get(_OWNERSHIP, OWNERSHIP.encode())
    if stated in _ACL_OWNERSHIPS:
        raise S3Error(
            "NotImplemented", f"The Object Ownership of every bucket is {OWNERSHIP}: ACLs are not implemented."
        )
    if stated != OWNERSHIP.encode():
        raise S3Error(
            "InvalidArgument", "There is no such Object Ownership.", fields={"ArgumentName": _OWNERSHIP.decode()}
        )


def read_document(body: bytes) -> Element | None:
    return request_document(body, "AccessControlPolicy") if body.strip() else None


def check_request(headers: Mapping[bytes, bytes], document: Element | None, owner: str) -> None:
    """An ACL is put by a header or by a document. `check_headers` has seen the headers."""
    if document is None:
        if _CANNED not in headers:
            raise S3Error("MissingSecurityHeader", "Your request was missing a required header: x-amz-acl")
    elif _CANNED in headers:
        raise S3Error("UnexpectedContent")
    elif not _is_owners(document, owner):
        raise S3Error("AccessControlListNotSupported")


def _is_owners(document: Element, owner: str) -> bool:
    """Whether it grants exactly the owner's full control."""
    parts = {local_name(node): node for node in document}
    grants = list(parts["AccessControlList"]) if "AccessControlList" in parts else []
    if len(parts) != len(document) or not parts.keys() <= {"Owner", "AccessControlList"} or len(grants) != 1:
        return False
    given = {local_name(node): node for node in grants[0]}
    if local_name(grants[0]) != "Grant" or len(grants[0]) != 2 or given.keys() != {"Grantee", "Permission"}:
        return False
    people = [given["Grantee"], *([parts["Owner"]] if "Owner" in parts else [])]
    return (given["Permission"].text or "").strip() == "FULL_CONTROL" and all(_is(owner, person) for person in people)


def _is(owner: str, person: Element) -> bool:
    fields = {local_name(node): (node.text or "").strip() for node in person}
    kind = person.get(f"{{{_INSTANCE}}}type", "CanonicalUser")
    return fields.get("ID") == owner and fields.keys() <= _GRANTEE_FIELDS and kind == "CanonicalUser"


def owners_acl_xml(owner: str) -> bytes:
    person = element("ID", owner) + element("DisplayName", owner)
    grantee = f'<Grantee xmlns:xsi="{_INSTANCE}" xsi:type="CanonicalUser">{person}</Grantee>'
    grant = f"<Grant>{grantee}{element('Permission', 'FULL_CONTROL')}</Grant>"
    body = f"<Owner>{person}</Owner><AccessControlList>{grant}</AccessControlList>"
    return f'{DECLARATION}<AccessControlPolicy xmlns="{NAMESPACE}">{body}</AccessControlPolicy>'.encode()
