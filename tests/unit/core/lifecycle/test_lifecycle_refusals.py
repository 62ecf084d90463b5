"""PUT bucket lifecycle: what is refused, and with which code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.lifecycle.rules_xml import parse_lifecycle
from tidegate.core.s3errors import S3Error

EXPIRE = "<Expiration><Days>1</Days></Expiration>"
ABORT = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
CLEANUP = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"
TAG = "<Tag><Key>a</Key><Value>1</Value></Tag>"


def rule(actions=EXPIRE, where="<Filter/>", status="<Status>Enabled</Status>", rule_id=""):
    return f"<Rule>{rule_id}{where}{status}{actions}</Rule>"


def configuration(*rules):
    return f"<LifecycleConfiguration>{''.join(rules)}</LifecycleConfiguration>".encode()


def move(days, to="GLACIER"):
    return f"<Transition><Days>{days}</Days><StorageClass>{to}</StorageClass></Transition>"


def move_on(date, to="GLACIER"):
    return f"<Transition><Date>{date}</Date><StorageClass>{to}</StorageClass></Transition>"


def noncurrent(days, extra=""):
    return f"<NoncurrentVersionExpiration><NoncurrentDays>{days}</NoncurrentDays>{extra}</NoncurrentVersionExpiration>"


def noncurrent_move(days, to="GLACIER"):
    return (
        f"<NoncurrentVersionTransition><NoncurrentDays>{days}</NoncurrentDays><StorageClass>{to}</StorageClass>"
        "</NoncurrentVersionTransition>"
    )


def expire(days):
    return f"<Expiration><Days>{days}</Days></Expiration>"


def expire_on(date):
    return f"<Expiration><Date>{date}</Date></Expiration>"


def kept(count):
    return noncurrent(1, f"<NewerNoncurrentVersions>{count}</NewerNoncurrentVersions>")


def filtered(inner):
    return f"<Filter>{inner}</Filter>"


def sizes(greater=None, less=None):
    inner = "" if greater is None else f"<ObjectSizeGreaterThan>{greater}</ObjectSizeGreaterThan>"
    inner += "" if less is None else f"<ObjectSizeLessThan>{less}</ObjectSizeLessThan>"
    return filtered(f"<And>{inner}</And>" if None not in (greater, less) else inner)


INVALID_ARGUMENT = {
    "id of 256 characters": [rule(rule_id=f"<ID>{'x' * 256}</ID>")],
    "id repeated": [rule(rule_id="<ID>same</ID>"), rule(rule_id="<ID>same</ID>")],
    "zero days": [rule(expire(0))],
    "negative days": [rule(expire(-1))],
    "more days than can be counted": [rule(expire(2**31))],
    "zero noncurrent days": [rule(noncurrent(0))],
    "negative noncurrent days": [rule(noncurrent(-7))],
    "zero days after initiation": [rule(ABORT.replace(">1<", ">0<"))],
    "negative days of a transition": [rule(move(-1))],
    "negative days of a noncurrent transition": [rule(noncurrent_move(-1))],
    "date with a time of day": [rule(expire_on("2030-01-31T00:00:01Z"))],
    "date with a fraction of a second": [rule(expire_on("2030-01-31T00:00:00.001Z"))],
    "date at midnight elsewhere": [rule(expire_on("2030-01-31T00:00:00+01:00"))],
    "date of a transition with a time of day": [rule(move_on("2030-01-31T12:00:00Z"))],
    "no newer version kept": [rule(kept(0))],
    "too many newer versions kept": [rule(kept(101))],
    "expiration on the day of the transition": [rule(expire(5) + move(5))],
    "expiration before the transition": [rule(expire(4) + move(5))],
    "expiration on the date of the transition": [rule(expire_on("2030-01-31") + move_on("2030-01-31"))],
    "noncurrent expiration with the transition": [rule(noncurrent(5) + noncurrent_move(5))],
    "colder class no later than the warmer": [rule(move(5, "STANDARD_IA") + move(5, "GLACIER"))],
    "colder class before the warmer": [rule(move(5, "GLACIER") + move(9, "STANDARD_IA"))],
    "colder noncurrent class before the warmer": [rule(noncurrent_move(5) + noncurrent_move(9, "STANDARD_IA"))],
}

MALFORMED_XML = {
    "not XML": [b"days: 1"],
    "cut off": [configuration(rule())[:-5]],
    "another root": [b"<Lifecycle></Lifecycle>"],
    "entity": [b'<!DOCTYPE a [<!ENTITY b "c">]><LifecycleConfiguration>&b;</LifecycleConfiguration>'],
    "no rule": [],
    "unknown element": [rule("<Expire/>")],
    "status unknown": [rule(status="<Status>enabled</Status>")],
    "status missing": [rule(status="")],
    "status twice": [rule(status="<Status>Enabled</Status><Status>Enabled</Status>")],
    "neither prefix nor filter": [rule(where="")],
    "prefix and filter": [rule(where="<Prefix/><Filter/>")],
    "two filters": [rule(where="<Filter/><Filter/>")],
    "two prefixes": [rule(where=filtered("<Prefix>a</Prefix><Prefix>b</Prefix>"))],
    "empty And": [rule(where=filtered("<And/>"))],
    "And with a neighbour": [rule(where=filtered(f"<And>{TAG}<Prefix/></And><Prefix/>"))],
    "tag without a value": [rule(where=filtered("<Tag><Key>a</Key></Tag>"))],
    "size that is no number": [rule(where=sizes(greater="big"))],
    "expiration without a form": [rule("<Expiration/>")],
    "expiration with two forms": [rule("<Expiration><Days>1</Days><Date>2030-01-31</Date></Expiration>")],
    "expiration by days and of markers": [
        rule("<Expiration><Days>1</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>")
    ],
    "two expirations": [rule(EXPIRE + EXPIRE)],
    "days that are no number": [rule(expire("soon"))],
    "days with a fraction": [rule(expire("1.5"))],
    "empty days": [rule(expire(""))],
    "days too large for any machine": [rule(expire("9" * 40))],
    "date that is none": [rule(expire_on("2030-02-31"))],
    "date in another form": [rule(expire_on("20300131"))],
    "date beyond the calendar": [rule(expire_on("0001-01-01T00:00:00+01:00"))],
    "marker clean-up that is neither true nor false": [rule(CLEANUP.replace("true", "yes"))],
    "noncurrent days missing": [rule("<NoncurrentVersionExpiration/>")],
    "noncurrent days missing beside a count": [rule(kept(1).replace("<NoncurrentDays>1</NoncurrentDays>", ""))],
    "noncurrent days of a transition missing": [
        rule(noncurrent_move("").replace("<NoncurrentDays></NoncurrentDays>", ""))
    ],
    "days after initiation missing": [rule("<AbortIncompleteMultipartUpload/>")],
    "unknown storage class": [rule(move(1, "FLOPPY"))],
    "STANDARD as the target": [rule(move(1, "STANDARD"))],
    "storage class missing": [rule("<Transition><Days>1</Days></Transition>")],
    "unknown noncurrent storage class": [rule(noncurrent_move(1, "FLOPPY"))],
    "transition without a time": [rule("<Transition><StorageClass>GLACIER</StorageClass></Transition>")],
    "transition with two times": [rule(move(1).replace("<Days>", "<Date>2030-01-31</Date><Days>"))],
    "text that holds an element": [rule(rule_id="<ID><b/></ID>")],
}

INVALID_REQUEST = {
    "no action": [rule("")],
    "tag key repeated": [rule(where=filtered(f"<And>{TAG}{TAG}</And>"))],
    "empty tag key": [rule(where=filtered("<Tag><Key/><Value>1</Value></Tag>"))],
    "tag key of 129 characters": [rule(where=filtered(f"<Tag><Key>{'k' * 129}</Key><Value/></Tag>"))],
    "tag value of 257 characters": [rule(where=filtered(f"<Tag><Key>k</Key><Value>{'v' * 257}</Value></Tag>"))],
    "prefix of 1025 bytes": [rule(where=f"<Prefix>{'é' * 512}x</Prefix>")],
    "marker clean-up with a tag": [rule(CLEANUP, where=filtered(TAG))],
    "marker clean-up with a size": [rule(CLEANUP, where=sizes(greater=1))],
    "upload abort with a tag": [rule(ABORT, where=filtered(TAG))],
    "upload abort with a size": [rule(ABORT, where=sizes(less=5))],
    "upload abort with a tag in And": [rule(EXPIRE + ABORT, where=filtered(f"<And><Prefix/>{TAG}</And>"))],
    "sizes the wrong way round": [rule(where=sizes(greater=10, less=5))],
    "sizes that are equal": [rule(where=sizes(greater=5, less=5))],
    "sizes with nothing between them": [rule(where=sizes(greater=5, less=6))],
    "size below zero": [rule(where=sizes(less=0))],
    "negative size": [rule(where=sizes(greater=-1))],
    "size beyond any object": [rule(where=sizes(greater=1_099_511_627_776_001))],
    "class repeated": [rule(move(1) + move(2))],
    "noncurrent class repeated": [rule(noncurrent_move(1) + noncurrent_move(2))],
    "dated transition and counted expiration": [rule(expire(9) + move_on("2030-01-31"))],
    "counted transition and dated expiration": [rule(expire_on("2030-01-31") + move(1))],
    "counted and dated transition": [rule(move(1, "GLACIER_IR") + move_on("2030-01-31"))],
    "1001 rules": [rule(rule_id=f"<ID>{number}</ID>") for number in range(1001)],
}


def refusal(parts, **options):
    body = parts[0] if parts and isinstance(parts[0], bytes) else configuration(*parts)
    with pytest.raises(S3Error) as refused:
        parse_lifecycle(body, **options)
    assert refused.value.status == 400
    assert refused.value.message
    return refused.value.code


@pytest.mark.parametrize("parts", INVALID_ARGUMENT.values(), ids=INVALID_ARGUMENT)
def test_invalid_argument(parts):
    assert refusal(parts) == refusal(parts, strict=True) == "InvalidArgument"


@pytest.mark.parametrize("parts", MALFORMED_XML.values(), ids=MALFORMED_XML)
def test_malformed_xml(parts):
    assert refusal(parts) == refusal(parts, strict=True) == "MalformedXML"


@pytest.mark.parametrize("parts", INVALID_REQUEST.values(), ids=INVALID_REQUEST)
def test_invalid_request(parts):
    assert refusal(parts) == refusal(parts, strict=True) == "InvalidRequest"


def test_an_empty_body_is_a_missing_one():
    for body in (b"", b" \n"):
        assert refusal([body]) == "MissingRequestBodyError"


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([rule(move(29, "STANDARD_IA"))], "InvalidArgument"),
        ([rule(move(29, "ONEZONE_IA"))], "InvalidArgument"),
        ([rule(noncurrent_move(29, "STANDARD_IA"))], "InvalidArgument"),
        ([rule(where="<Prefix>a</Prefix>"), rule(where=filtered("<Prefix>b</Prefix>"))], "InvalidRequest"),
        ([rule(where=filtered(f"<And>{TAG}</And>"))], "MalformedXML"),
        ([rule(where=filtered(f"<Prefix>a</Prefix>{TAG}"))], "MalformedXML"),
    ],
)
def test_what_only_the_strict_reading_refuses(parts, code):
    assert parse_lifecycle(configuration(*parts)).rules
    assert refusal(parts, strict=True) == code


def test_the_limits_themselves_are_accepted():
    for actions in (expire(2**31 - 1), move(30, "STANDARD_IA"), move(0), kept(1), kept(100), expire(6) + move(5)):
        assert parse_lifecycle(configuration(rule(actions)), strict=True).rules
    for where in (sizes(greater=5, less=7), sizes(less=1), sizes(greater=0), f"<Prefix>{'é' * 512}</Prefix>"):
        assert parse_lifecycle(configuration(rule(where=where)), strict=True).rules


def test_a_document_of_many_small_elements_is_refused_before_it_is_read():
    assert refusal([b"<LifecycleConfiguration>" + b"<a/>" * 200_000 + b"</LifecycleConfiguration>"]) == "MalformedXML"


names = [
    "LifecycleConfiguration",
    "Rule",
    "ID",
    "Filter",
    "And",
    "Prefix",
    "Tag",
    "Key",
    "Value",
    "Status",
    "Expiration",
]
names += ["Days", "Date", "Transition", "StorageClass", "NoncurrentVersionExpiration", "NoncurrentDays"]
trees = st.recursive(
    st.sampled_from(["", "1", "0", "Enabled", "GLACIER", "2030-01-31", "x" * 300]),
    lambda inner: st.lists(st.tuples(st.sampled_from(names), inner), max_size=4).map(
        lambda nodes: "".join(f"<{name}>{text}</{name}>" for name, text in nodes)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(trees | st.text(max_size=50))
def test_whatever_is_sent_is_read_or_refused_as_the_clients_fault(inner):
    try:
        parse_lifecycle(f"<LifecycleConfiguration><Rule>{inner}</Rule></LifecycleConfiguration>".encode())
    except S3Error as refused:
        assert refused.status == 400
