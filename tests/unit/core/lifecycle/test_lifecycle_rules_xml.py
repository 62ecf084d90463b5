"""PUT bucket lifecycle: every form of rule that is read, and GET that gives back what PUT gave."""

from __future__ import annotations

import botocore.session
import pytest
from botocore.parsers import RestXMLParser
from botocore.serialize import RestXMLSerializer

from tidegate.core.lifecycle.rules import Action, ActionKind, Filter, FilterForm, RuleSet, TransitionMinimum
from tidegate.core.lifecycle.rules_writer import lifecycle_xml, written_xml
from tidegate.core.lifecycle.rules_xml import parse_lifecycle, transition_minimum
from tidegate.core.s3errors import S3Error

SERVICE = botocore.session.get_session().get_service_model("s3")
EXPIRE = "<Expiration><Days>1</Days></Expiration>"


def document(*rules):
    return (
        f"<LifecycleConfiguration>{''.join(f'<Rule>{rule}</Rule>' for rule in rules)}</LifecycleConfiguration>".encode()
    )


def parsed(*parts, where="<Filter/>", status="Enabled", **options):
    """The only rule of a configuration with these actions."""
    (rule,) = parse_lifecycle(document(f"<ID>r</ID>{where}<Status>{status}</Status>{''.join(parts)}"), **options).rules
    return rule


def sent_by_boto3(rules):
    """The body that the AWS SDK puts on the wire."""
    operation = SERVICE.operation_model("PutBucketLifecycleConfiguration")
    values = {"Bucket": "b", "LifecycleConfiguration": {"Rules": rules}}
    return RestXMLSerializer().serialize_to_request(values, operation)["body"]


def read_by_boto3(body):
    """The rules that the AWS SDK reads from a response."""
    shape = SERVICE.operation_model("GetBucketLifecycleConfiguration").output_shape
    return RestXMLParser().parse({"status_code": 200, "headers": {}, "body": body}, shape)["Rules"]


@pytest.mark.parametrize(
    ("xml", "action"),
    [
        ("<Expiration><Days>1</Days></Expiration>", Action(ActionKind.EXPIRATION_DAYS, days=1)),
        (
            "<Expiration><Date>2030-01-31T00:00:00.000Z</Date></Expiration>",
            Action(ActionKind.EXPIRATION_DATE, date=1_896_048_000),
        ),
        (
            "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
            Action(ActionKind.EXPIRED_OBJECT_DELETE_MARKER),
        ),
        (
            "<NoncurrentVersionExpiration><NoncurrentDays>7</NoncurrentDays></NoncurrentVersionExpiration>",
            Action(ActionKind.NONCURRENT_DAYS, days=7),
        ),
        (
            "<NoncurrentVersionExpiration><NewerNoncurrentVersions>100</NewerNoncurrentVersions>"
            "<NoncurrentDays>7</NoncurrentDays></NoncurrentVersionExpiration>",
            Action(ActionKind.NEWER_NONCURRENT_VERSIONS, days=7, newer=100),
        ),
        (
            "<AbortIncompleteMultipartUpload><DaysAfterInitiation>3</DaysAfterInitiation>"
            "</AbortIncompleteMultipartUpload>",
            Action(ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD, days=3),
        ),
        (
            "<Transition><Days>0</Days><StorageClass>GLACIER</StorageClass></Transition>",
            Action(ActionKind.TRANSITION_DAYS, days=0, storage_class="GLACIER"),
        ),
        (
            "<Transition><StorageClass>GLACIER_IR</StorageClass><Date>2030-01-31T00:00:00Z</Date></Transition>",
            Action(ActionKind.TRANSITION_DATE, date=1_896_048_000, storage_class="GLACIER_IR"),
        ),
        (
            "<NoncurrentVersionTransition><NoncurrentDays>30</NoncurrentDays>"
            "<NewerNoncurrentVersions>2</NewerNoncurrentVersions><StorageClass>STANDARD_IA</StorageClass>"
            "</NoncurrentVersionTransition>",
            Action(ActionKind.NONCURRENT_TRANSITION_DAYS, days=30, newer=2, storage_class="STANDARD_IA"),
        ),
    ],
)
def test_every_action_is_read(xml, action):
    assert parsed(xml).actions == (action,)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("<Prefix/>", Filter(prefix="", form=FilterForm.RULE_PREFIX)),
        ("<Prefix>logs/</Prefix>", Filter(prefix="logs/", form=FilterForm.RULE_PREFIX)),
        ("<Filter/>", Filter()),
        ("<Filter><Prefix> a\n😀&lt;:</Prefix></Filter>", Filter(prefix=" a\n😀<:")),
        ("<Filter><Tag><Key>a</Key><Value/></Tag></Filter>", Filter(tags=(("a", ""),))),
        ("<Filter><ObjectSizeGreaterThan>0</ObjectSizeGreaterThan></Filter>", Filter(size_greater_than=0)),
        ("<Filter><ObjectSizeLessThan>1</ObjectSizeLessThan></Filter>", Filter(size_less_than=1)),
        (
            "<Filter><And><Prefix>p</Prefix><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value>2</Value>"
            "</Tag><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><ObjectSizeLessThan>7</ObjectSizeLessThan>"
            "</And></Filter>",
            Filter("p", (("a", "1"), ("b", "2")), 5, 7, FilterForm.AND),
        ),
    ],
)
def test_every_filter_is_read(where, expected):
    assert parsed(EXPIRE, where=where).filter == expected
    assert parsed(EXPIRE, where=where, strict=True).filter == expected


def test_predicates_side_by_side_are_read_as_and_unless_strict():
    tags = "".join(f"<Tag><Key>{key}</Key><Value>{value}</Value></Tag>" for key, value in ("a1", "b2"))
    where = f"<Filter><Prefix>p</Prefix>{tags}</Filter>"
    assert parsed(EXPIRE, where=where).filter == Filter("p", (("a", "1"), ("b", "2")))
    with pytest.raises(S3Error) as refused:
        parsed(EXPIRE, where=where, strict=True)
    assert refused.value.code == "MalformedXML"


def test_a_status_switches_a_rule_off():
    assert parsed(EXPIRE).enabled
    assert not parsed(EXPIRE, status="Disabled").enabled


def test_a_marker_clean_up_that_is_false_does_nothing():
    off = parsed("<Expiration><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration>")
    assert off.actions == ()


@pytest.mark.parametrize("date", ["2030-01-31", "2030-01-31T00:00:00", "2030-01-31T02:00:00+02:00", " 2030-01-31 "])
def test_dates_are_read_in_the_forms_that_clients_send(date):
    (action,) = parsed(f"<Expiration><Date>{date}</Date></Expiration>").actions
    assert action.date == 1_896_048_000


def test_namespace_comments_and_order_do_not_matter():
    body = (
        b'<?xml version="1.0"?><x:LifecycleConfiguration xmlns:x="http://s3.amazonaws.com/doc/2006-03-01/"><!-- c -->'
        b"<x:Rule><x:Expiration><x:Days> 1 </x:Days></x:Expiration><x:Status>Enabled</x:Status>"
        b"<x:Filter></x:Filter><x:ID>r</x:ID></x:Rule></x:LifecycleConfiguration>"
    )
    assert parse_lifecycle(body).rules == (parsed(EXPIRE),)


def test_rules_without_an_id_get_one_that_depends_on_their_content_only():
    body = document(
        *[f"<Filter/><Status>Enabled</Status>{EXPIRE}"] * 2, f"<Prefix>a</Prefix><Status>Enabled</Status>{EXPIRE}"
    )
    first = [rule.id for rule in parse_lifecycle(body).rules]
    assert len(set(first)) == 3
    assert all(rule.id_generated for rule in parse_lifecycle(body).rules)
    assert first == [rule.id for rule in parse_lifecycle(body.replace(b"<Prefix>a", b"<ID/><Prefix>a")).rules]


def test_a_generated_id_never_takes_one_that_is_given():
    plain = f"<Filter/><Status>Enabled</Status>{EXPIRE}"
    (generated,) = parse_lifecycle(document(plain)).rules
    both = parse_lifecycle(document(plain, f"<ID>{generated.id}</ID>{plain}")).rules
    assert both[0].id != both[1].id == generated.id


def test_a_thousand_rules_are_accepted():
    rules = [f"<ID>{n}</ID><Filter/><Status>Enabled</Status>{EXPIRE}" for n in range(1000)]
    assert len(parse_lifecycle(document(*rules)).rules) == 1000


def test_an_id_of_255_characters_is_accepted():
    body = document(f"<ID>{'é' * 255}</ID><Filter/><Status>Enabled</Status>{EXPIRE}")
    assert parse_lifecycle(body).rules[0].id == "é" * 255


def test_classes_of_the_installation_take_the_place_of_those_of_s3():
    moves = "<Transition><Days>1</Days><StorageClass>tape</StorageClass></Transition>"
    assert parsed(moves, storage_classes=["disk", "tape"]).actions[0].storage_class == "tape"


def test_a_class_that_no_location_serves_is_refused_with_what_can_be_done():
    moves = "<Transition><Days>1</Days><StorageClass>tape</StorageClass></Transition>"
    with pytest.raises(S3Error, match="one that a location serves: disk, glass") as refused:
        parsed(moves, storage_classes=["disk", "glass"])
    assert refused.value.code == "MalformedXML"
    with pytest.raises(S3Error, match=r"there is none yet: .* tidegate location create") as refused:
        parsed(moves, storage_classes=[])
    assert refused.value.code == "MalformedXML"


def test_get_returns_what_put_gave_to_the_byte():
    body = document(f"<!-- mine --><ID>r</ID>\n <Prefix></Prefix><Status>Enabled</Status>{EXPIRE}")
    stored = RuleSet.from_json(parse_lifecycle(body).to_json())
    assert lifecycle_xml(stored) == body


def test_get_names_the_ids_that_were_given_to_rules_without_one():
    body = document(f"<Prefix>a</Prefix><Status>Enabled</Status>{EXPIRE}")
    rule_set = parse_lifecycle(body)
    (rule,) = read_by_boto3(lifecycle_xml(rule_set))
    assert rule == {"ID": rule_set.rules[0].id, "Prefix": "a", "Status": "Enabled", "Expiration": {"Days": 1}}


def test_a_document_in_another_encoding_is_written_anew():
    text = document("<ID>é</ID><Filter/><Status>Enabled</Status>" + EXPIRE).decode()
    body = ('<?xml version="1.0" encoding="UTF-16"?>' + text).encode("utf-16")
    rule_set = parse_lifecycle(body)
    assert read_by_boto3(lifecycle_xml(rule_set))[0]["ID"] == "é"


def test_everything_the_sdk_can_say_survives_being_written_anew():
    given = [
        {"ID": "old form", "Prefix": "a/", "Status": "Disabled", "Expiration": {"Days": 5}},
        {
            "ID": "& <all> \"'",
            "Filter": {"And": {"Prefix": "", "Tags": [{"Key": "k", "Value": "v"}], "ObjectSizeGreaterThan": 1}},
            "Status": "Enabled",
            "Transitions": [{"Days": 1, "StorageClass": "STANDARD_IA"}, {"Days": 2, "StorageClass": "GLACIER"}],
            "Expiration": {"Days": 3},
            "NoncurrentVersionTransitions": [
                {"NoncurrentDays": 1, "NewerNoncurrentVersions": 4, "StorageClass": "GLACIER_IR"}
            ],
            "NoncurrentVersionExpiration": {"NoncurrentDays": 9, "NewerNoncurrentVersions": 2},
        },
        {
            "ID": "clean",
            "Filter": {},
            "Status": "Enabled",
            "Expiration": {"ExpiredObjectDeleteMarker": True},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
        },
        {"ID": "off", "Filter": {}, "Status": "Enabled", "Expiration": {"ExpiredObjectDeleteMarker": False}},
        {"ID": "tag", "Filter": {"Tag": {"Key": "k", "Value": ""}}, "Status": "Enabled", "Expiration": {"Days": 3}},
    ]
    rule_set = parse_lifecycle(sent_by_boto3(given))
    assert read_by_boto3(written_xml(rule_set)) == given
    assert parse_lifecycle(written_xml(rule_set)).rules == rule_set.rules


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00Z", "1969-12-31T00:00:00Z", "9999-12-31T00:00:00Z"])
def test_dates_at_the_ends_of_the_calendar_survive(date):
    body = document(f"<Filter/><Status>Enabled</Status><Expiration><Date>{date}</Date></Expiration>")
    assert date[:10].encode() in lifecycle_xml(parse_lifecycle(body))


def test_the_header_for_the_smallest_size_has_two_values_and_a_default():
    assert transition_minimum(None) is TransitionMinimum.ALL_CLASSES
    assert transition_minimum("all_storage_classes_128K") is TransitionMinimum.ALL_CLASSES
    assert transition_minimum("varies_by_storage_class") is TransitionMinimum.VARIES
    with pytest.raises(S3Error) as refused:
        transition_minimum("none")
    assert refused.value.code == "InvalidArgument"
