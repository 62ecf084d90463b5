"""Policy documents of forms: what they allow, and what is refused."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.post_policy import PostPolicy, SizeRange, parse_policy
from tidegate.core.s3errors import S3Error

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
LATER = "2027-01-15T09:00:00.000Z"


def encoded(document: Any) -> str:
    return b64encode(json.dumps(document).encode()).decode()


def policy(*conditions: Any, expiration: str = LATER) -> PostPolicy:
    return parse_policy(encoded({"expiration": expiration, "conditions": list(conditions)}))


def check(found: PostPolicy, bucket: str = "b", now: float = NOW, **fields: str) -> None:
    found.check({name.replace("_", "-"): value for name, value in fields.items()}, bucket=bucket, now=now)


def refusal(call, *arguments, **options) -> S3Error:
    with pytest.raises(S3Error) as refused:
        call(*arguments, **options)
    return refused.value


def test_fields_that_meet_their_conditions_are_allowed() -> None:
    found = policy(
        {"bucket": "b"},
        ["starts-with", "$key", "user/"],
        ["eq", "$Content-Type", "text/plain"],
        {"X-Amz-Meta-A": ""},
        ["Starts-With", "$x-amz-meta-b", ""],
    )
    check(found, key="user/x", content_type="text/plain", x_amz_meta_b="anything")
    check(found, key="user/", content_type="text/plain", x_amz_meta_a="", policy="…", x_amz_signature="…", file="…")
    check(found, key="user/", content_type="text/plain", awsaccesskeyid="k", signature="s", x_ignore_this="…")


@pytest.mark.parametrize(
    ("condition", "fields"),
    [
        ({"bucket": "other"}, {}),
        ({"key": "a"}, {"key": "b"}),
        ({"key": "a"}, {}),
        ({"key": "a"}, {"key": "A"}),
        (["eq", "$key", "a"], {"key": "ab"}),
        (["starts-with", "$key", "ab"], {"key": "a"}),
        (["starts-with", "$key", "ab"], {}),
        (["starts-with", "$content-type", "image/"], {"content_type": "image/png, text/html"}),
    ],
)
def test_a_field_that_does_not_meet_its_condition_is_denied(condition: Any, fields: dict[str, str]) -> None:
    error = refusal(check, policy(condition), **fields)
    assert (error.status, error.code) == (403, "AccessDenied")
    assert error.message.startswith("Invalid according to Policy: Policy Condition failed: [")


def test_lists_of_types_and_plain_values_are_told_apart() -> None:
    check(policy(["starts-with", "$content-type", "image/"]), content_type="image/png,image/gif")
    check(policy(["starts-with", "$key", "a,"]), key="a,b")


def test_a_field_that_no_condition_speaks_of_is_denied() -> None:
    error = refusal(check, policy({"key": "k"}), key="k", acl="private", x_amz_meta_a="b")
    assert (error.code, error.message) == (
        "AccessDenied",
        "Invalid according to Policy: Extra input fields: acl, x-amz-meta-a",
    )


def test_the_bucket_is_that_of_the_request_whatever_a_field_says() -> None:
    found = policy({"bucket": "mine"})
    found.check({"bucket": "other"}, bucket="mine", now=NOW)
    assert "Policy Condition" in refusal(found.check, {"bucket": "mine"}, bucket="other", now=NOW).message


def test_a_policy_ends_with_its_expiration() -> None:
    found = policy()
    check(found, now=NOW + 3599.9)
    assert refusal(check, found, now=NOW + 3600).message == "Invalid according to Policy: Policy expired."


def test_the_size_is_within_all_ranges_with_their_bounds() -> None:
    assert policy().size == SizeRange(0, None)
    size = policy(["content-length-range", 10, 100], ["Content-Length-Range", "5", "50"]).size
    assert size == SizeRange(10, 50)
    size.check_most(50)
    size.check_least(10)
    assert refusal(size.check_most, 51).code == "EntityTooLarge"
    assert refusal(size.check_least, 9).code == "EntityTooSmall"


@pytest.mark.parametrize(
    "document",
    [
        [],
        "text",
        {"conditions": []},
        {"expiration": LATER},
        {"expiration": LATER, "conditions": {}},
        {"expiration": 5, "conditions": []},
        {"expiration": "tomorrow", "conditions": []},
        {"expiration": "2027-01-15T09:00:00+01:00", "conditions": []},
        {"expiration": "9999-99-99T09:00:00Z", "conditions": []},
        {"expiration": LATER, "conditions": ["eq"]},
        {"expiration": LATER, "conditions": [5]},
        {"expiration": LATER, "conditions": [[]]},
        {"expiration": LATER, "conditions": [{}]},
        {"expiration": LATER, "conditions": [{"a": "b", "c": "d"}]},
        {"expiration": LATER, "conditions": [{"a": 5}]},
        {"expiration": LATER, "conditions": [["eq", "key", "v"]]},
        {"expiration": LATER, "conditions": [["eq", "$", "v"]]},
        {"expiration": LATER, "conditions": [["eq", "$key"]]},
        {"expiration": LATER, "conditions": [["eq", "$key", None]]},
        {"expiration": LATER, "conditions": [["ends-with", "$key", "v"]]},
        {"expiration": LATER, "conditions": [["content-length-range", 1]]},
        {"expiration": LATER, "conditions": [["content-length-range", -1, 5]]},
        {"expiration": LATER, "conditions": [["content-length-range", True, 5]]},
        {"expiration": LATER, "conditions": [["content-length-range", 1, 1e3]]},
        {"expiration": LATER, "conditions": [["content-length-range", 1, "9" * 17]]},
    ],
)
def test_a_document_that_says_something_else_is_invalid(document: Any) -> None:
    error = refusal(parse_policy, encoded(document))
    assert (error.status, error.code) == (400, "InvalidPolicyDocument")


@pytest.mark.parametrize("text", ["", "=", "é", "e30", b64encode(b"\xff").decode(), b64encode(b"[" * 19_000).decode()])
def test_what_is_no_document_is_invalid(text: str) -> None:
    assert refusal(parse_policy, text).code == "InvalidPolicyDocument"


def test_line_breaks_in_base64_do_not_matter() -> None:
    text = encoded({"expiration": LATER, "conditions": [{"key": "k"}]})
    assert parse_policy(text[:20] + "\r\n" + text[20:]) == parse_policy(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["eq", "$key"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


@given(st.lists(_JSON, max_size=5), st.dictionaries(st.text(max_size=8), st.text(max_size=8)))
def test_any_document_gives_an_answer_or_s3s_error(conditions: list[Any], fields: dict[str, str]) -> None:
    try:
        policy(*conditions).check(fields, bucket="b", now=NOW)
    except S3Error as refused:
        assert refused.code in ("AccessDenied", "InvalidPolicyDocument")
