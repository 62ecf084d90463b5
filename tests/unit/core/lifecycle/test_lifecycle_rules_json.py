"""Configurations in the AWS command line's JSON: the same rules and the same refusals as the XML that it would send."""

from __future__ import annotations

import json

import botocore.session
import pytest
from botocore.serialize import RestXMLSerializer

from tidegate.core.lifecycle.rules import RuleSet, TransitionMinimum
from tidegate.core.lifecycle.rules_json import parse_either
from tidegate.core.lifecycle.rules_xml import parse_lifecycle
from tidegate.core.s3errors import S3Error

PUT = botocore.session.get_session().get_service_model("s3").operation_model("PutBucketLifecycleConfiguration")
RULES = [
    {"ID": "plain", "Status": "Enabled", "Filter": {"Prefix": "a&<>'\"/é"}, "Expiration": {"Days": 3}},
    {"ID": "old", "Status": "Disabled", "Prefix": "x/", "Expiration": {"Date": "2030-01-31T00:00:00Z"}},
    {"ID": "marker", "Status": "Enabled", "Filter": {}, "Expiration": {"ExpiredObjectDeleteMarker": True}},
    {
        "Status": "Enabled",
        "Filter": {
            "And": {
                "Prefix": "y/",
                "Tags": [{"Key": "k", "Value": "v"}, {"Key": "l", "Value": ""}],
                "ObjectSizeGreaterThan": 5,
                "ObjectSizeLessThan": 500,
            }
        },
        "Transitions": [{"Days": 30, "StorageClass": "STANDARD_IA"}, {"Days": 90, "StorageClass": "GLACIER"}],
        "NoncurrentVersionTransitions": [
            {"NoncurrentDays": 30, "StorageClass": "GLACIER", "NewerNoncurrentVersions": 2}
        ],
        "NoncurrentVersionExpiration": {"NoncurrentDays": 60, "NewerNoncurrentVersions": 3},
    },
    {"ID": "tag", "Status": "Enabled", "Filter": {"Tag": {"Key": "k", "Value": "v"}}, "Expiration": {"Days": 1}},
    {"ID": "up", "Status": "Enabled", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}},
]


def sent(rules: list[object]) -> bytes:
    """What the AWS SDK puts on the wire for the same values."""
    values = {"Bucket": "b", "LifecycleConfiguration": {"Rules": rules}}
    body: bytes = RestXMLSerializer().serialize_to_request(values, PUT)["body"]
    return body


def without_source(rules: RuleSet) -> tuple[object, ...]:
    return rules.rules, rules.minimum


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("ID", "and"))
def test_json_means_what_the_sdk_would_send(rule: dict[str, object]) -> None:
    parsed = parse_either(json.dumps({"Rules": [rule]}).encode())
    assert without_source(parsed) == without_source(parse_lifecycle(sent([rule])))


def test_xml_is_read_as_it_is() -> None:
    body = sent(RULES)
    assert parse_either(body) == parse_lifecycle(body)


@pytest.mark.parametrize(
    ("given", "stated", "expected"),
    [
        (None, None, TransitionMinimum.ALL_CLASSES),
        (None, "varies_by_storage_class", TransitionMinimum.VARIES),
        ("all_storage_classes_128K", "varies_by_storage_class", TransitionMinimum.ALL_CLASSES),
        ("varies_by_storage_class", None, TransitionMinimum.VARIES),
    ],
)
def test_the_minimum_size_is_taken_from_the_option_or_from_the_document(
    given: str | None, stated: str | None, expected: TransitionMinimum
) -> None:
    document: dict[str, object] = {"Rules": RULES[:1]}
    if stated is not None:
        document["TransitionDefaultMinimumObjectSize"] = stated
    assert parse_either(json.dumps(document).encode(), minimum=given).minimum is expected


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("{", "MalformedXML"),
        ("{}", "MalformedXML"),
        ('{"Rules": {}}', "MalformedXML"),
        ('{"Rules": [1]}', "MalformedXML"),
        ('{"Rules": [], "Other": 1}', "MalformedXML"),
        ('{"Rules": [{"Status": "On", "Filter": {}, "Expiration": {"Days": 1}}]}', "MalformedXML"),
        ('{"Rules": [{"Status": "Enabled", "Filter": {}, "Expiration": {"Days": 1.5}}]}', "MalformedXML"),
        ('{"Rules": [{"Status": "Enabled", "Filter": {}, "Expiration": {"Days": 0}}]}', "InvalidArgument"),
        ('{"Rules": [{"Status": "Enabled", "Filter": {}}]}', "InvalidRequest"),
        ('{"Rules": [{"Status": "Enabled", "Filter": [], "Expiration": {"Days": 1}}]}', "MalformedXML"),
        ('{"Rules": [{"Status": "Enabled", "<b>": 1}]}', "MalformedXML"),
        ('{"Rules": [], "TransitionDefaultMinimumObjectSize": "small"}', "InvalidArgument"),
        ('{"Rules": ' + "[" * 100_000, "MalformedXML"),
        (' {"a": ' * 5000 + "1" + "}" * 5000, "MalformedXML"),
        ("", "MissingRequestBodyError"),
    ],
)
def test_what_is_wrong_gets_the_code_of_put(document: str, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        parse_either(document.encode())
    assert caught.value.code == code


def test_a_document_of_any_size_is_refused_before_it_is_read() -> None:
    with pytest.raises(S3Error, match="too large"):
        parse_either(b'{"Rules": "' + b"x" * (2 << 20) + b'"}')
