"""The replication sub-resource of buckets, which the gateway answers itself, and what it holds fast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from botocore.exceptions import ClientError
from metadata_log import MetadataLog, settings_of
from places import Place
from raw_http import Answer
from replication_documents import MARKERS_ON, TAG, destination, document, old_rule, rule
from stored_locations import store_location_of

from tidegate.assembly import open_tables
from tidegate.core.replication.rules import REPLICATION, ReplicationRules

NEAR, FAR = "site-near", "site-far"


@pytest.fixture(scope="module")
def sites(place: Place) -> tuple[str, str]:
    for name in (NEAR, FAR):
        store_location_of(place.service, name)
    return NEAR, FAR


@pytest.fixture
def bucket(place: Place, sites: tuple[str, str], fresh_name: Callable[[str], str]) -> Iterator[str]:
    """A bucket of the test's own, with versioning. No rules are left to name the sites."""
    name = fresh_name("replicated")
    place.s3.create_bucket(Bucket=name)
    versioning(place, name, "Enabled")
    yield name
    ask(place, "DELETE", name)


@pytest.fixture
def log(place: Place) -> Iterator[MetadataLog]:
    with closing(MetadataLog(place.service)) as opened:
        yield opened


def versioning(place: Place, bucket: str, status: str) -> None:
    place.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


def ask(place: Place, method: str, bucket: str, body: bytes = b"") -> Answer:
    return place.ask(method, f"/{bucket}?replication=", body)


def put(place: Place, bucket: str, *rules: str) -> Answer:
    return ask(place, "PUT", bucket, document(*rules))


def to(*sites: str) -> str:
    return destination(*sites, bucket="arn:aws:s3:::copies")


def stored(place: Place, uid: str) -> ReplicationRules | None:
    with closing(open_tables(settings_of(place.service), place.service.data)) as tables:
        text = tables.get(REPLICATION + uid)
    return ReplicationRules.from_json(text) if text is not None else None


def refusal(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(ClientError) as caught:
        call()
    response: dict[str, Any] = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


# --- the round trip ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        document(rule(to(NEAR, FAR))),
        document(old_rule("logs/", to(f"{NEAR}:preferred_read"))),
        document(*(rule(to(NEAR), id=f"{number}", priority=number) for number in range(1000))),
    ],
    ids=["plain", "old form", "1000 rules"],
)
def test_what_was_put_is_got_byte_for_byte(place: Place, bucket: str, body: bytes) -> None:
    answer = ask(place, "PUT", bucket, body)
    assert (answer.status, answer.body) == (200, b"")
    got = ask(place, "GET", bucket)
    assert (got.status, got.body, got.headers["content-type"]) == (200, body, "application/xml")


def test_rules_without_an_id_are_given_one_that_stays(place: Place, bucket: str) -> None:
    assert put(place, bucket, rule(to(NEAR), id="")).status == 200
    first = ask(place, "GET", bucket).body
    assert re.findall(rb"<ID>rule-[0-9a-f]{16}</ID>", first)
    assert ask(place, "PUT", bucket, first).status == 200
    assert ask(place, "GET", bucket).body == first


def test_boto3_reads_what_it_wrote(place: Place, bucket: str) -> None:
    rules = [
        {
            "ID": "b",
            "Priority": 3,
            "Filter": {"And": {"Prefix": "x/", "Tags": [{"Key": "a", "Value": "1"}]}},
            "Status": "Enabled",
            "DeleteMarkerReplication": {"Status": "Disabled"},
            "ExistingObjectReplication": {"Status": "Enabled"},
            "Destination": {"Bucket": "arn:aws:s3:::copies", "StorageClass": NEAR, "Account": "123456789012"},
        }
    ]
    configuration = {"Role": "arn:aws:iam::123456789012:role/r", "Rules": rules}
    place.s3.put_bucket_replication(Bucket=bucket, ReplicationConfiguration=configuration)
    assert place.s3.get_bucket_replication(Bucket=bucket)["ReplicationConfiguration"] == configuration
    place.s3.delete_bucket_replication(Bucket=bucket)
    found = refusal(lambda: place.s3.get_bucket_replication(Bucket=bucket))
    assert found == (404, "ReplicationConfigurationNotFoundError")


def test_without_rules_delete_is_content(place: Place, bucket: str) -> None:
    assert [ask(place, "DELETE", bucket).status for _ in range(2)] == [204, 204]
    answer = ask(place, "GET", bucket)
    assert f"<BucketName>{bucket}</BucketName>".encode() in answer.body


def test_a_change_of_rules_is_an_event_of_the_bucket(place: Place, bucket: str, log: MetadataLog) -> None:
    log.news()
    put(place, bucket, rule(to(NEAR)))
    put(place, bucket, rule(to(FAR)))
    ask(place, "DELETE", bucket)
    ask(place, "DELETE", bucket)
    told = [dict(event.attributes)["replication"] for event in log.news() if event.bucket == bucket]
    assert len(told) == 3 and len(set(told)) == 3 and told[2] == ""


def test_a_rule_keeps_the_time_since_when_it_does_what_it_does(place: Place, bucket: str, log: MetadataLog) -> None:
    log.news()
    put(place, bucket, rule(to(NEAR)))
    uid = next(event.bucket_uid for event in log.news() if event.bucket == bucket)
    first = stored(place, uid)
    put(place, bucket, rule(to(NEAR), id="renamed"), rule(to(NEAR), id="new", priority=2, markers=MARKERS_ON))
    second = stored(place, uid)
    assert first is not None and second is not None
    assert second.rules[0].since == first.rules[0].since < second.rules[1].since


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "rules"),
    [
        ("MalformedXML", 400, ()),
        ("MalformedXML", 400, (rule(""),)),
        ("InvalidArgument", 400, (rule(to("site-nowhere")),)),
        ("InvalidRequest", 400, (rule(to(NEAR), where=f"<Filter>{TAG}</Filter>", markers=MARKERS_ON),)),
        ("InvalidRequest", 400, (rule(to(NEAR)), rule(to(NEAR, FAR), id="s"))),
        ("InvalidRequest", 400, tuple(rule(to(NEAR), id=f"{number}", priority=number) for number in range(1001))),
        ("InvalidRequest", 400, (rule(to()),)),
    ],
    ids=["no rule", "no destination", "unknown site", "tags and markers", "priority twice", "1001 rules", "no site"],
)
def test_what_is_refused_leaves_the_old_rules(
    place: Place, bucket: str, code: str, status: int, rules: tuple[str, ...]
) -> None:
    kept = document(rule(to(NEAR), id="kept"))
    assert ask(place, "PUT", bucket, kept).status == 200
    answer = put(place, bucket, *rules)
    assert (answer.status, answer.code) == (status, code)
    assert ask(place, "GET", bucket).body == kept


@pytest.mark.parametrize("before", ["", "Suspended"])
def test_rules_need_versioning(
    place: Place, sites: tuple[str, str], fresh_name: Callable[[str], str], before: str
) -> None:
    name = fresh_name("unversioned")
    place.s3.create_bucket(Bucket=name)
    if before:
        versioning(place, name, before)
    answer = put(place, name, rule(to(NEAR)))
    assert (answer.status, answer.code) == (400, "InvalidRequest") and b"Versioning must be" in answer.body
    assert ask(place, "GET", name).status == 404


def test_versioning_stays_while_there_are_rules(place: Place, bucket: str, log: MetadataLog) -> None:
    put(place, bucket, rule(to(NEAR), status="Disabled"))
    log.news()
    assert refusal(lambda: versioning(place, bucket, "Suspended")) == (409, "InvalidBucketState")
    assert place.s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    versioning(place, bucket, "Enabled")
    ask(place, "DELETE", bucket)
    versioning(place, bucket, "Suspended")
    assert place.s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Suspended"
    changes = [dict(event.attributes) for event in log.news() if event.bucket == bucket]
    assert changes == [{"versioning": "Enabled"}, {"replication": ""}, {"versioning": "Suspended"}]


def test_rules_go_with_their_bucket(place: Place, bucket: str, log: MetadataLog) -> None:
    log.news()
    put(place, bucket, rule(to(NEAR)))
    uid = next(event.bucket_uid for event in log.news() if event.bucket == bucket)
    assert stored(place, uid) is not None
    place.s3.delete_bucket(Bucket=bucket)
    assert stored(place, uid) is None
    place.s3.create_bucket(Bucket=bucket)
    assert ask(place, "GET", bucket).code == "ReplicationConfigurationNotFoundError"


def test_a_location_stays_while_rules_name_it(place: Place, bucket: str) -> None:
    put(place, bucket, rule(to(FAR)))
    refused = place.service.run_cli("location", "remove", FAR, "--yes")
    assert refused.returncode != 0 and f"bucket {bucket} name location {FAR}" in refused.stderr
