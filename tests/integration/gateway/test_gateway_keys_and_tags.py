"""Keys and tags that cannot be kept are refused, however they come in; all others come back as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from botocore.exceptions import ClientError
from places import Place

GARBLED = ["a\x01b", "\x08", "x/\x0b", "f\x1f/y", "a\ufffe", "a\uffffb"]
ODD = [
    "tab\t.",
    "line\n/feed",
    "return\r",
    "delete\x7f",
    "\x85next",
    "\ufeffmark",
    "colon:",
    "😀",
    "ü" * 100,
    "a+b c%20",
]
TOO_MANY = [{"Key": f"k{number}", "Value": "v"} for number in range(11)]


@pytest.fixture(params=["Off", "Enabled"])
def bucket(place: Place, fresh_name: Callable[[str], str], request: pytest.FixtureRequest) -> str:
    name = fresh_name("odd")
    place.s3.create_bucket(Bucket=name)
    if request.param == "Enabled":
        place.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


def test_odd_keys_come_back_from_every_listing(place: Place, bucket: str) -> None:
    for key in ODD:
        place.s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
        assert place.s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    assert {entry["Key"] for entry in place.s3.list_objects_v2(Bucket=bucket)["Contents"]} == set(ODD)
    assert {entry["Key"] for entry in place.s3.list_object_versions(Bucket=bucket)["Versions"]} == set(ODD)
    gone = place.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in ODD]})
    assert {entry["Key"] for entry in gone["Deleted"]} == set(ODD)
    assert place.s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@pytest.mark.parametrize("key", GARBLED, ids=ascii)
def test_a_key_that_listings_would_garble_gets_in_by_no_way(place: Place, bucket: str, key: str) -> None:
    path = f"/{bucket}/{quote(key)}"
    place.s3.put_object(Bucket=bucket, Key="source", Body=b"x")
    copy = {"x-amz-copy-source": f"/{bucket}/source"}
    tags = b"<Tagging><TagSet/></Tagging>"
    for answer in (
        place.ask("PUT", path, b"data"),
        place.ask("PUT", path, headers=copy),
        place.ask("POST", f"{path}?uploads="),
        place.ask("PUT", f"{path}?partNumber=1&uploadId=u", b"data"),
        place.ask("PUT", f"{path}?tagging=", tags),
        place.ask("DELETE", path),
    ):
        assert (answer.status, answer.code) == (400, "InvalidArgument")
        assert b"XML 1.0" in answer.body
    assert place.ask("GET", path).code == "NoSuchKey"
    assert place.ask("HEAD", path).status == 404
    assert place.ask("PUT", f"/{bucket}/k", headers={"x-amz-copy-source": path}).code == "NoSuchKey"
    assert place.s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1


def test_a_delete_of_a_key_that_xml_cannot_hold_is_malformed(place: Place, bucket: str) -> None:
    place.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for name in ("a\x01b", "a&#1;b", "a\ufffe"):
        body = f"<Delete><Object><Key>k</Key></Object><Object><Key>{name}</Key></Object></Delete>".encode()
        answer = place.ask("POST", f"/{bucket}?delete=", body)
        if answer.status == 200:  # expat lets U+FFFE pass: then that key alone is refused
            assert name == "a\ufffe" and b"<Code>InvalidArgument</Code>" in answer.body
        else:
            assert answer.code == "MalformedXML"
            assert place.s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1


# --- tags ----------------------------------------------------------------------------------------


def invalid_tag(change: Callable[..., Any], **given: Any) -> None:
    with pytest.raises(ClientError) as refused:
        change(**given)
    assert refused.value.response["Error"]["Code"] == "InvalidTag"


@pytest.mark.parametrize(
    "tags",
    [
        TOO_MANY,
        [{"Key": "same", "Value": "1"}, {"Key": "same", "Value": "2"}],
        [{"Key": "k" * 129, "Value": "v"}],
        [{"Key": "k", "Value": "v" * 257}],
    ],
    ids=["too many", "twice", "long key", "long value"],
)
def test_tags_that_s3_does_not_have_are_refused(place: Place, tags: list[dict[str, str]]) -> None:
    where = {"Bucket": place.bucket, "Key": place.fresh("tagged")}
    place.s3.put_object(**where, Body=b"x", Tagging="a=b")
    invalid_tag(place.s3.put_object_tagging, **where, Tagging={"TagSet": tags})
    header = urlencode([(tag["Key"], tag["Value"]) for tag in tags])
    invalid_tag(place.s3.put_object, **where, Body=b"y", Tagging=header)
    invalid_tag(place.s3.create_multipart_upload, **where, Tagging=header)
    invalid_tag(place.s3.copy_object, **where, CopySource=where, Tagging=header, TaggingDirective="REPLACE")
    assert place.s3.get_object_tagging(**where)["TagSet"] == [{"Key": "a", "Value": "b"}]
    assert place.stored(where["Key"]) == b"x"


def test_too_many_tags_of_a_bucket_are_refused(place: Place, bucket: str) -> None:
    """S3 takes 50; SeaweedFS takes ten and says the same of more."""
    many = [{"Key": f"k{number}", "Value": "v"} for number in range(51)]
    place.s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": many[:10]})
    for count in (11, 50, 51):
        invalid_tag(place.s3.put_bucket_tagging, Bucket=bucket, Tagging={"TagSet": many[:count]})
    assert len(place.s3.get_bucket_tagging(Bucket=bucket)["TagSet"]) == 10
