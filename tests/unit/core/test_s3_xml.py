"""S3's XML: requests read strictly, backends' answers read tolerantly, and what is written can be read by anybody."""

from xml.etree import ElementTree
from xml.sax.saxutils import escape as sax_escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import xml
from tidegate.core.documents import LARGEST_DOCUMENT
from tidegate.core.errors import Unavailable
from tidegate.core.s3errors import CODES, S3Error, error_xml
from tidegate.core.xml_writer import escape, iso_time, list_buckets_xml

NS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
BOMB = (
    b'<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><Delete><Object><Key>&b;</Key></Object></Delete>'
)


def code_of(call, *arguments):
    with pytest.raises(S3Error) as refused:
        call(*arguments)
    assert refused.value.status == 400
    return refused.value.code


def delete(*objects, quiet=""):
    return f"<Delete {NS}>{''.join(f'<Object>{inner}</Object>' for inner in objects)}{quiet}</Delete>".encode()


def test_delete_request_is_read_with_all_identities():
    body = delete(
        "<Key>a/b</Key>",
        '<Key>k</Key><VersionId>v</VersionId><ETag>"e"</ETag><LastModifiedTime>t</LastModifiedTime><Size>12</Size>',
        quiet="<Quiet>true</Quiet>",
    )
    request = xml.parse_delete_request(body)
    assert request.quiet
    assert request.entries == (xml.DeleteEntry("a/b"), xml.DeleteEntry("k", "v", '"e"', "t", 12))


def test_namespace_declaration_and_comments_make_no_difference():
    plain = xml.parse_delete_request(b"<Delete><Object><Key>a<!-- x -->b</Key></Object></Delete>")
    prefixed = b'<?xml version="1.0"?>\n<s:Delete xmlns:s="urn:x">\n <s:Object><s:Key>ab</s:Key></s:Object></s:Delete>'
    assert plain == xml.parse_delete_request(prefixed)
    assert plain.entries[0].key == "ab"


@pytest.mark.parametrize(
    "body",
    [
        b"not xml",
        b"<Delete>",
        b"<Delete/>",
        b"<Other/>",
        b"<Delete><Object/></Delete>",
        delete("<Key></Key>"),
        delete("<Key>a</Key><Key>b</Key>"),
        delete("<Key>a</Key><Other>b</Other>"),
        delete("<Key>a<b/></Key>"),
        delete("<Key>a</Key><Size>-1</Size>"),
        delete("<Key>a</Key><Size>1e3</Size>"),
        delete("<Key>a</Key>", quiet="<Quiet>perhaps</Quiet>"),
        delete("<Key>a</Key>", quiet="<Quiet>true</Quiet><Quiet>true</Quiet>"),
        delete("<Key>a</Key>", quiet="<Objects/>"),
        delete("<Key>&#1;</Key>"),
        delete("<Key>&#0;</Key>"),
        delete(f"<Key>{'k' * 1025}</Key>"),
        delete(f"<Key>{'ä' * 513}</Key>"),
        delete(*["<Key>a</Key>"] * 1001),
        BOMB,
        b'<!DOCTYPE Delete SYSTEM "file:///etc/passwd"><Delete><Object><Key>a</Key></Object></Delete>',
        '<!DOCTYPE Delete [<!ENTITY a "a">]><Delete><Object><Key>&a;</Key></Object></Delete>'.encode("utf-16"),
        b'<?xml version="1.0" encoding="klingon"?><Delete/>',
        b'<?xml version="1.0" encoding="utf-8"?><Delete><Object><Key>\xff</Key></Object></Delete>',
        b"<a>" * 20_000,
        b"<Delete>" + b" " * LARGEST_DOCUMENT + b"</Delete>",
    ],
)
def test_malformed_delete_request_is_refused(body):
    assert code_of(xml.parse_delete_request, body) == "MalformedXML"


def test_empty_body_is_refused_where_a_document_is_needed():
    assert code_of(xml.parse_delete_request, b" \n") == "MissingRequestBodyError"


def test_thousand_objects_with_all_fields_are_accepted():
    one = "<Key>k</Key><VersionId>v</VersionId><ETag>e</ETag><LastModifiedTime>t</LastModifiedTime><Size>1</Size>"
    assert len(xml.parse_delete_request(delete(*[one] * 1000)).entries) == 1000


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(body):
    for parse in (xml.parse_delete_request, xml.parse_create_bucket, xml.parse_tagging, xml.parse_completed_parts):
        for document in (body, b"<Delete>" + body + b"</Delete>"):
            try:
                parse(document)
            except S3Error as refused:
                assert refused.status == 400


plain_keys = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1, max_size=40
)


@given(st.lists(plain_keys, min_size=1, max_size=5))
def test_written_delete_request_is_read_back(keys):
    entries = tuple(xml.DeleteEntry(key + "\n\r\t", "v", '"e&"') for key in keys)
    assert xml.parse_delete_request(xml.delete_request_xml(entries)) == xml.DeleteRequest(entries, False)


@given(st.lists(plain_keys, max_size=5))
def test_written_delete_result_is_read_back(keys):
    deleted = (*(xml.Deleted(key, "v", True, "m") for key in keys), xml.Deleted("plain"))
    failures = tuple(xml.DeleteFailure(key, "", "AccessDenied", "<no> & 'never'\r") for key in keys)
    assert xml.parse_delete_result(xml.delete_result_xml(deleted, failures)) == xml.DeleteResult(deleted, failures)


@pytest.mark.parametrize(
    ("body", "location"),
    [
        (b"", ""),
        (b"  \n", ""),
        (b"<CreateBucketConfiguration/>", ""),
        (b"<CreateBucketConfiguration><LocationConstraint> eu </LocationConstraint></CreateBucketConfiguration>", "eu"),
    ],
)
def test_location_of_a_new_bucket_is_optional(body, location):
    assert xml.parse_create_bucket(body) == location


def test_versioning_is_enabled_or_suspended_and_nothing_else():
    body = "<VersioningConfiguration><Status>{}</Status></VersioningConfiguration>"
    assert xml.parse_versioning(body.format("Enabled").encode()) == "Enabled"
    assert xml.parse_versioning(body.format("Suspended").encode()) == "Suspended"
    assert code_of(xml.parse_versioning, body.format("Off").encode()) == "MalformedXML"
    assert code_of(xml.parse_versioning, b"<VersioningConfiguration/>") == "MalformedXML"


def tagging(*pairs):
    tags = "".join(f"<Tag><Key>{sax_escape(key)}</Key><Value>{sax_escape(value)}</Value></Tag>" for key, value in pairs)
    return f"<Tagging {NS}><TagSet>{tags}</TagSet></Tagging>".encode()


def test_tags_are_read_in_order():
    assert xml.parse_tagging(tagging(("b", "2"), ("a", ""))) == (("b", "2"), ("a", ""))
    assert xml.parse_tagging(tagging()) == ()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (tagging(*((f"k{number}", "v") for number in range(11))), "InvalidTag"),
        (tagging(("a", "1"), ("a", "2")), "InvalidTag"),
        (tagging(("", "1")), "InvalidTag"),
        (tagging(("k" * 129, "1")), "InvalidTag"),
        (tagging(("k", "v" * 257)), "InvalidTag"),
        (b"<Tagging/>", "MalformedXML"),
        (b"<Tagging><TagSet/><TagSet/></Tagging>", "MalformedXML"),
        (b"<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>", "MalformedXML"),
        (b"<Tagging><TagSet><Other/></TagSet></Tagging>", "MalformedXML"),
    ],
)
def test_unusable_tags_are_refused(body, code):
    assert code_of(xml.parse_tagging, body) == code


def test_bucket_takes_fifty_tags():
    fifty = tuple((f"k{number}", "v") for number in range(50))
    assert xml.parse_tagging(tagging(*fifty), xml.MOST_BUCKET_TAGS) == fifty


@pytest.mark.parametrize(
    ("header", "tags"),
    [
        (b"", ()),
        (b"a=1&b=x%20y+z%26", (("a", "1"), ("b", "x y z&"))),
        (b"a=&b", (("a", ""), ("b", ""))),
        (b"k=%C3%A4", (("k", "ä"),)),
    ],
)
def test_tagging_header_is_read(header, tags):
    assert xml.parse_tagging_header(header) == tags


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"a=1&a=2", "InvalidTag"),
        (b"=1", "InvalidTag"),
        (b"&".join(b"k%d=v" % number for number in range(11)), "InvalidTag"),
        (b"k" * 129 + b"=v", "InvalidTag"),
        (b"k=" + b"v" * 257, "InvalidTag"),
        (b"a=\xff", "InvalidArgument"),
        (b"a=%ff", "InvalidArgument"),
    ],
)
def test_unusable_tagging_header_is_refused(header, code):
    assert code_of(xml.parse_tagging_header, header) == code


def parts(*numbers):
    inner = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>e</ETag></Part>" for number in numbers)
    return f"<CompleteMultipartUpload {NS}>{inner}</CompleteMultipartUpload>".encode()


def test_ten_thousand_parts_in_order_are_accepted():
    xml.parse_completed_parts(parts(*range(1, 10_001)))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (parts(), "MalformedXML"),
        (parts(0), "MalformedXML"),
        (parts(10_001), "MalformedXML"),
        (parts("x"), "MalformedXML"),
        (parts(2, 1), "InvalidPartOrder"),
        (parts(1, 1), "InvalidPartOrder"),
    ],
)
def test_unusable_list_of_parts_is_refused(body, code):
    assert code_of(xml.parse_completed_parts, body) == code


@pytest.mark.parametrize(
    ("root", "inner", "name", "value"),
    [
        ("CopyObjectResult", '<ETag>"e"</ETag>', "ETag", '"e"'),
        ("CompleteMultipartUploadResult", "<ETag>e</ETag><Owner><ID>1</ID></Owner>", "ETag", "e"),
        ("InitiateMultipartUploadResult", "<UploadId>u</UploadId>", "UploadId", "u"),
        ("Error", "<Code>InternalError</Code>", "Code", "InternalError"),
    ],
)
@pytest.mark.parametrize("namespace", ["", NS])
def test_answer_of_a_backend_is_read(root, inner, name, value, namespace):
    reply = xml.parse_reply(f"<{root} {namespace}>{inner}</{root}>".encode())
    assert (reply.root, reply.fields[name]) == (root, value)


@pytest.mark.parametrize("body", [b"", b"<html>", b"<Error/>"])
def test_answer_that_is_no_delete_result_means_the_backend_is_unavailable(body):
    with pytest.raises(Unavailable):
        xml.parse_delete_result(body)


@given(st.text(max_size=40))
def test_any_key_can_stand_in_an_error(resource):
    error = S3Error("NoSuchKey", fields={"Key": resource})
    root = ElementTree.fromstring(error_xml(error, resource=resource, request_id="R", host_id="H"))
    assert [child.tag for child in root] == ["Code", "Message", "Key", "Resource", "RequestId", "HostId"]
    assert root.findtext("Code") == "NoSuchKey"


def test_characters_that_xml_cannot_hold_are_replaced_and_others_kept():
    assert escape("a&<>\"'\r\n\t\x01\ud800\uffffä") == "a&amp;&lt;&gt;&quot;'&#13;\n\t\ufffd\ufffd\ufffdä"


def test_every_code_has_an_error_status_and_a_message():
    for code, (status, message) in CODES.items():
        assert 400 <= status < 600
        assert S3Error(code).message == message
    assert S3Error("SlowDown", "wait", headers={"Retry-After": "3"}).headers == {"Retry-After": "3"}


def test_buckets_are_listed_with_their_times():
    body = list_buckets_xml([("one", 0.0), ("two", 1709208000.1239)], owner="p&q")
    root = ElementTree.fromstring(body)
    space = {"s": "http://s3.amazonaws.com/doc/2006-03-01/"}
    assert [node.text for node in root.findall(".//s:Name", space)] == ["one", "two"]
    assert root.findtext(".//s:ID", namespaces=space) == "p&q"
    assert [node.text for node in root.findall(".//s:CreationDate", space)] == [
        "1970-01-01T00:00:00.000Z",
        "2024-02-29T12:00:00.123Z",
    ]


def test_time_keeps_milliseconds():
    assert iso_time(0.9996) == "1970-01-01T00:00:00.999Z"
