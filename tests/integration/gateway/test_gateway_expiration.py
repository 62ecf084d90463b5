"""The header x-amz-expiration, on every reply that shows a current object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from places import Place
from raw_http import Answer, request_head, signed_chunks, signed_length

from tidegate.core.sigv4 import STREAMING_SIGNED

BUCKET, VERSIONED = "expiring", "expiring-versioned"
KIB = 1024
RULES = [
    {"ID": "by prefix", "Filter": {"Prefix": "tmp/"}, "Status": "Enabled", "Expiration": {"Days": 3}},
    {
        "ID": "by/tag",
        "Filter": {"Tag": {"Key": "keep", "Value": "a day"}},
        "Status": "Enabled",
        "Expiration": {"Days": 1},
    },
    {
        "ID": "by-size",
        "Filter": {"And": {"Prefix": "s/", "ObjectSizeGreaterThan": 99 * KIB, "ObjectSizeLessThan": 101 * KIB}},
        "Status": "Enabled",
        "Expiration": {"Days": 2},
    },
    {"ID": "off", "Filter": {"Prefix": "off/"}, "Status": "Disabled", "Expiration": {"Days": 1}},
    {"ID": "on a day", "Filter": {"Prefix": "day/"}, "Status": "Enabled", "Expiration": {"Date": "2040-01-01"}},
]
PREFIX, TAG, SIZE = "by%20prefix", "by%2Ftag", "by-size"
KEPT_A_DAY = {"x-amz-tagging": "keep=a%20day&other=1"}


@pytest.fixture(scope="module", autouse=True)
def _rules(place: Place) -> Iterator[None]:
    for bucket in (BUCKET, VERSIONED):
        place.s3.create_bucket(Bucket=bucket)
        place.s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": RULES})
    place.s3.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
    yield
    for bucket in (BUCKET, VERSIONED):
        place.s3.delete_bucket_lifecycle(Bucket=bucket)


def ask(place: Place, method: str, key: str, body: bytes = b"", query: str = "", **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = place.ask(method, f"/{BUCKET}/{key}{query}", body, headers=sent)
    assert answer.status in (200, 206), answer
    return answer


def rule_of(answer: Answer) -> str:
    """The rule that the header names; "" without a header."""
    found = re.search('rule-id="(.*)"', answer.headers.get("x-amz-expiration", ""))
    return found[1] if found else ""


def days_of(answer: Answer) -> float:
    """How many days there are from now to the date that the header names."""
    found = re.search('expiry-date="(.*)",', answer.headers["x-amz-expiration"])
    assert found is not None
    date = datetime.strptime(found[1], "%a, %d %b %Y %H:%M:%S GMT")
    assert (date.hour, date.minute, date.second) == (0, 0, 0)
    here = datetime.strptime(answer.headers["date"], "%a, %d %b %Y %H:%M:%S GMT")
    return (date - here) / timedelta(days=1)


def on_reads(place: Place, key: str) -> set[str]:
    """The rule that reads of every kind name."""
    answers = [ask(place, "GET", key), ask(place, "HEAD", key), ask(place, "GET", key, Range="bytes=0-0")]
    assert answers[2].status == 206
    return {rule_of(answer) for answer in answers}


def test_an_object_under_the_prefix_tells_it_on_writing_and_on_reading(place: Place) -> None:
    written = ask(place, "PUT", "tmp/a", b"x")
    assert rule_of(written) == PREFIX
    assert 3 < days_of(written) <= 4
    assert on_reads(place, "tmp/a") == {PREFIX}
    assert ask(place, "GET", "tmp/a").headers["x-amz-expiration"] == written.headers["x-amz-expiration"]


@pytest.mark.parametrize("key", ["tmp", "other/tmp/a", "off/a"])
def test_other_objects_tell_nothing(place: Place, key: str) -> None:
    assert rule_of(ask(place, "PUT", key, b"x")) == ""
    assert on_reads(place, key) == {""}


def test_a_date_is_told_as_it_is(place: Place) -> None:
    answer = ask(place, "PUT", "day/a", b"x")
    assert answer.headers["x-amz-expiration"] == 'expiry-date="Sun, 01 Jan 2040 00:00:00 GMT", rule-id="on%20a%20day"'


def test_tags_count_from_the_moment_they_are_set(place: Place) -> None:
    assert rule_of(ask(place, "PUT", "tagged", b"x", **KEPT_A_DAY)) == TAG
    assert on_reads(place, "tagged") == {TAG}
    ask(place, "PUT", "tagged-late", b"x")
    assert on_reads(place, "tagged-late") == {""}
    tags = {"TagSet": [{"Key": "keep", "Value": "a day"}]}
    place.s3.put_object_tagging(Bucket=BUCKET, Key="tagged-late", Tagging=tags)
    assert on_reads(place, "tagged-late") == {TAG}
    place.s3.delete_object_tagging(Bucket=BUCKET, Key="tagged-late")
    assert on_reads(place, "tagged-late") == {""}


def test_of_two_rules_the_earlier_is_told(place: Place) -> None:
    assert rule_of(ask(place, "PUT", "tmp/tagged", b"x", **KEPT_A_DAY)) == TAG
    assert on_reads(place, "tmp/tagged") == {TAG}


@pytest.mark.parametrize(
    ("size", "told"), [(99 * KIB, ""), (99 * KIB + 1, SIZE), (101 * KIB - 1, SIZE), (101 * KIB, "")]
)
def test_sizes_are_those_of_the_whole_object(place: Place, size: int, told: str) -> None:
    assert rule_of(ask(place, "PUT", "s/a", b"x" * size)) == told
    assert on_reads(place, "s/a") == {told}


def test_the_size_is_that_of_the_object_however_it_was_sent(place: Place) -> None:
    chunks = [b"c" * 33 * KIB] * 3
    for decoded, told in ((chunks, ""), ([*chunks, b"d" * KIB], SIZE)):
        length = sum(map(len, decoded))
        head = request_head(
            place.url,
            place.key,
            "PUT",
            f"/{BUCKET}/s/streamed",
            headers={"x-amz-decoded-content-length": str(length), "Content-Encoding": "aws-chunked"},
            payload=STREAMING_SIGNED,
            length=signed_length([len(chunk) for chunk in decoded]),
        )
        with place.wire() as wire:
            answer = wire.ask(head + signed_chunks(place.key, head, decoded))
        assert (answer.status, rule_of(answer)) == (200, told)
        assert on_reads(place, "s/streamed") == {told}


def test_a_copy_goes_by_what_it_has_become(place: Place) -> None:
    ask(place, "PUT", "source", b"x" * 100 * KIB, **KEPT_A_DAY)
    source = {"x-amz-copy-source": f"/{BUCKET}/source"}
    assert rule_of(ask(place, "PUT", "copied", **source)) == TAG, "tags are copied"
    assert on_reads(place, "copied") == {TAG}
    replaced = {"x-amz-tagging-directive": "REPLACE", "x-amz-tagging": "other=1"}
    assert rule_of(ask(place, "PUT", "s/copied", **source, **replaced)) == SIZE
    assert on_reads(place, "s/copied") == {SIZE}


@pytest.mark.parametrize(("key", "tagging", "told"), [("s/parts", "", SIZE), ("parts", "keep=a%20day", TAG)])
def test_a_completed_upload_goes_by_what_it_has_become(place: Place, key: str, tagging: str, told: str) -> None:
    options = {"Tagging": tagging} if tagging else {}
    upload = place.s3.create_multipart_upload(Bucket=BUCKET, Key=key, **options)["UploadId"]
    named = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
    part = place.s3.upload_part(**named, PartNumber=1, Body=b"p" * 100 * KIB)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    answer = place.s3.complete_multipart_upload(**named, MultipartUpload=parts)
    assert f'rule-id="{told}"' in answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-expiration"]
    assert on_reads(place, key) == {told}


def test_a_version_asked_for_by_its_id_tells_nothing(place: Place) -> None:
    written = place.s3.put_object(Bucket=VERSIONED, Key="tmp/a", Body=b"x")
    version = written["VersionId"]
    assert "Expiration" in written
    assert "Expiration" in place.s3.get_object(Bucket=VERSIONED, Key="tmp/a")
    assert "Expiration" not in place.s3.get_object(Bucket=VERSIONED, Key="tmp/a", VersionId=version)
    assert "Expiration" not in place.s3.head_object(Bucket=VERSIONED, Key="tmp/a", VersionId=version)


def test_replies_that_show_no_object_tell_nothing(place: Place) -> None:
    ask(place, "PUT", "tmp/gone", b"x", **KEPT_A_DAY)
    for method, key, query in (
        ("GET", "tmp/none", ""),
        ("HEAD", "tmp/none", ""),
        ("GET", "tmp/gone", "?tagging="),
        ("DELETE", "tmp/gone", ""),
    ):
        answer = place.ask(method, f"/{BUCKET}/{key}{query}")
        assert "x-amz-expiration" not in answer.headers, (method, key)


def test_rules_that_are_gone_tell_nothing(place: Place) -> None:
    bucket = "expired-rules"
    place.s3.create_bucket(Bucket=bucket)
    place.s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": RULES})
    assert "Expiration" in place.s3.put_object(Bucket=bucket, Key="tmp/a", Body=b"x")
    place.s3.delete_bucket_lifecycle(Bucket=bucket)
    assert "Expiration" not in place.s3.get_object(Bucket=bucket, Key="tmp/a")
