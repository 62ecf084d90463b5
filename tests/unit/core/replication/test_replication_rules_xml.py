"""Replication configurations are read as S3 reads them, refused with its codes, and shown as they were put."""

from __future__ import annotations

import re

import pytest
from replication_documents import MARKERS_OFF, MARKERS_ON, TAG, destination, document, old_rule, rule

from tidegate.core.lifecycle.rules import FilterForm
from tidegate.core.replication.rules import ReplicationRules
from tidegate.core.replication.rules_xml import parse_replication, replication_xml
from tidegate.core.s3errors import S3Error

SITES = ("far", "near")
EXISTING = "<ExistingObjectReplication><Status>Enabled</Status></ExistingObjectReplication>"
MINUTES = "<Minutes>15</Minutes>"
TIME = f"<ReplicationTime><Status>Enabled</Status><Time>{MINUTES}</Time></ReplicationTime>"
METRICS = f"<Metrics><Status>Enabled</Status><EventThreshold>{MINUTES}</EventThreshold></Metrics>"
ACCOUNT = "<Account>123456789012</Account>"
OWNER = "<AccessControlTranslation><Owner>Destination</Owner></AccessControlTranslation>"
KMS = "<SseKmsEncryptedObjects><Status>Enabled</Status></SseKmsEncryptedObjects>"
MODIFICATIONS = "<ReplicaModifications><Status>Disabled</Status></ReplicaModifications>"


def parsed(body: bytes, sites: tuple[str, ...] = SITES) -> ReplicationRules:
    return parse_replication(body, sites=sites)


def refused(body: bytes, sites: tuple[str, ...] = SITES) -> S3Error:
    with pytest.raises(S3Error) as caught:
        parse_replication(body, sites=sites)
    return caught.value


def sources(inner: str) -> str:
    return f"<SourceSelectionCriteria>{inner}</SourceSelectionCriteria>"


# --- what is read --------------------------------------------------------------------------------


def test_a_rule_with_a_filter_says_all_there_is_to_say() -> None:
    where = f"<Filter><And><Prefix>a/</Prefix>{TAG}</And></Filter>"
    (found,) = parsed(document(rule(destination("near", "far"), where=where, priority=7, more=EXISTING))).rules
    assert (found.id, found.priority, found.enabled, found.bucket) == ("r", 7, True, "copies")
    assert (found.filter.prefix, found.filter.tags, found.sites) == ("a/", (("a", "1"),), ("near", "far"))
    assert (found.delete_markers, found.existing_objects, found.id_generated) == (False, True, False)


def test_the_old_form_has_a_prefix_and_replicates_delete_markers() -> None:
    (found,) = parsed(document(old_rule("logs/"))).rules
    assert (found.filter.prefix, found.filter.form, found.priority) == ("logs/", FilterForm.RULE_PREFIX, 0)
    assert found.delete_markers


def test_delete_markers_are_replicated_where_the_rule_says_so() -> None:
    assert parsed(document(rule(markers=MARKERS_ON))).rules[0].delete_markers
    assert not parsed(document(rule(markers=MARKERS_OFF))).rules[0].delete_markers


def test_a_disabled_rule_names_no_site() -> None:
    rules = parsed(document(rule(status="Disabled")))
    assert not rules.rules[0].enabled and rules.sites == ()


@pytest.mark.parametrize("bucket", ["copies", "arn:aws:s3:::copies", "arn:aws-cn:s3:::copies"])
def test_the_bucket_is_given_by_its_name_or_its_arn(bucket: str) -> None:
    assert parsed(document(rule(destination("near", bucket=bucket)))).rules[0].bucket == "copies"


@pytest.mark.parametrize("text", ["near,far", " near , far ", "near:preferred_read,far", "near,far,near"])
def test_sites_are_separated_by_commas_and_one_may_be_preferred_for_reads(text: str) -> None:
    assert parsed(document(rule(destination(text)))).rules[0].sites == ("near", "far")


def test_the_only_site_need_not_be_named() -> None:
    assert parsed(document(rule(destination())), ("sole",)).rules[0].sites == ("sole",)


@pytest.mark.parametrize("role", ["", "<Role>arn:aws:iam::1:role/a,arn:aws:iam::1:role/b</Role>"])
def test_the_role_is_kept_and_may_be_left_out(role: str) -> None:
    found = parsed(document(rule(), role=role))
    assert f"<Role>{found.role}</Role>" == (role or "<Role></Role>")


# --- what is shown -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        document(rule()),
        document(old_rule("a/"), old_rule("b/", id="second é &amp; \U0001f600")),
        document(rule(destination("near", more=ACCOUNT + OWNER + TIME + METRICS), more=sources(KMS + MODIFICATIONS))),
        document(*(rule(id=f"{number}", priority=number) for number in range(1000))),
        document(rule() + "<!-- a remark -->"),
    ],
    ids=["plain", "old form and odd id", "all that changes nothing", "1000 rules", "remark"],
)
def test_what_was_put_is_shown_byte_for_byte(body: bytes) -> None:
    assert replication_xml(parsed(body)) == body


def test_rules_without_an_id_get_one_and_all_else_stays() -> None:
    nameless = rule(destination("near", more=METRICS), id="", priority=1)
    body = document(nameless, rule(id="named", priority=2), nameless.replace(">1<", ">3<", 1))
    rules = parsed(body)
    shown = replication_xml(rules)
    ids = re.findall(r"<ID>(.+?)</ID>", shown.decode())
    assert ids == [found.id for found in rules.rules]
    assert ids[1] == "named" and len(set(ids)) == 3
    assert shown.count(b"<Metrics>") == 2 and b"role/replication" in shown
    again = parsed(shown)
    assert replication_xml(again) == shown
    assert [found.digest() for found in again.rules] == [found.digest() for found in rules.rules]


def test_the_same_document_always_gets_the_same_ids() -> None:
    body = document(rule(id=""))
    assert replication_xml(parsed(body)) == replication_xml(parsed(body))


def test_an_empty_id_is_none() -> None:
    body = document(rule().replace("<ID>r</ID>", "<ID/>"))
    assert re.findall(rb"<ID>[^<]+</ID>", replication_xml(parsed(body)))


def test_rules_are_stored_and_read_again() -> None:
    rules = parsed(document(rule(where=f"<Filter>{TAG}</Filter>"), rule(id="s", priority=2)))
    assert ReplicationRules.from_json(rules.to_json()) == rules


# --- what is refused -----------------------------------------------------------------------------


def ruled(*rules: str) -> bytes:
    return document(*rules)


REFUSED = {
    "MalformedXML": {
        "no rule": ruled(),
        "no destination": ruled(rule("")),
        "no bucket": ruled(rule("<Destination><StorageClass>near</StorageClass></Destination>")),
        "no status": ruled(rule().replace("<Status>Enabled</Status>", "")),
        "a bad status": ruled(rule(status="enabled")),
        "neither prefix nor filter": ruled(rule(where="")),
        "prefix and filter": ruled(rule(where="<Filter/><Prefix>a</Prefix>")),
        "a filter by size": ruled(
            rule(where="<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>"),
        ),
        "a priority in words": ruled(rule().replace("<Priority>1<", "<Priority>high<")),
        "an unknown element": ruled(rule(more="<Colour>blue</Colour>")),
        "markers without a status": ruled(rule(markers="<DeleteMarkerReplication/>")),
        "two destinations": ruled(rule(destination("near") + destination("far"))),
        "another owner": ruled(rule(destination("near", more=ACCOUNT + OWNER.replace("Destination<", "Me<")))),
        "not XML": b"{}",
        "broken off": ruled(rule())[:-40],
        "another document": b"<Tagging><TagSet/></Tagging>",
        "an entity": b'<!DOCTYPE x [<!ENTITY e "r">]>' + ruled(rule(id="&e;")).partition(b"\n")[2],
    },
    "InvalidArgument": {
        "an id longer than 255": ruled(rule(id="i" * 256)),
        "an id repeated": ruled(rule(), rule(priority=2)),
        "a negative priority": ruled(rule(priority=-1)),
        "a priority that is too high": ruled(rule(priority=2**31)),
        "an unknown site": ruled(rule(destination("mars"))),
        "a class of S3's own": ruled(rule(destination("STANDARD_IA"))),
        "an empty site": ruled(rule(destination("near", ""))),
        "no bucket's name": ruled(rule(destination("near", bucket="arn:aws:s3:::No_Bucket"))),
        "another service's ARN": ruled(rule(destination("near", bucket="arn:aws:sqs:::copies"))),
    },
    "InvalidRequest": {
        "more than 1000 rules": ruled(*(rule(id=f"{number}", priority=number) for number in range(1001))),
        "a priority repeated for a site": ruled(rule(destination("near", "far")), rule(destination("far"), id="s")),
        "a tag with delete markers": ruled(rule(where=f"<Filter>{TAG}</Filter>", markers=MARKERS_ON)),
        "a tag repeated": ruled(rule(where=f"<Filter><And>{TAG}{TAG}</And></Filter>")),
        "a prefix longer than any key": ruled(rule(where=f"<Filter><Prefix>{'p' * 1025}</Prefix></Filter>")),
        "no priority": ruled(rule(priority=None)),
        "nothing about delete markers": ruled(rule(markers="")),
        "a priority in the old form": ruled(rule(where="<Prefix>a</Prefix>", markers="")),
        "delete markers in the old form": ruled(rule(where="<Prefix>a</Prefix>", priority=None)),
        "both forms": ruled(old_rule("a/"), rule(id="s")),
        "prefixes that meet in the old form": ruled(old_rule("a"), old_rule("b", id="s"), old_rule("a/b", id="t")),
        "several sites to choose from": ruled(rule(destination())),
        "an owner without an account": ruled(rule(destination("near", more=OWNER))),
        "a replication time without metrics": ruled(rule(destination("near", more=TIME))),
    },
    "NotImplemented": {
        "a key for replicas": ruled(
            rule(
                destination(
                    "near",
                    more="<EncryptionConfiguration><ReplicaKmsKeyID>k</ReplicaKmsKeyID></EncryptionConfiguration>",
                )
            )
        ),
        "replicas that replicate": ruled(rule(more=sources(MODIFICATIONS.replace("Disabled", "Enabled")))),
    },
}
CASES = [pytest.param(code, body, id=what) for code, causes in REFUSED.items() for what, body in causes.items()]


@pytest.mark.parametrize(("code", "body"), CASES)
def test_what_breaks_a_rule_of_s3_is_refused_with_its_code(code: str, body: bytes) -> None:
    assert refused(body).code == code


def test_an_empty_body_is_refused() -> None:
    assert refused(b"").code == "MissingRequestBodyError"


def test_limits_are_met_exactly() -> None:
    parsed(document(rule(id="i" * 255, priority=2**31 - 1, where=f"<Filter><Prefix>{'p' * 1024}</Prefix></Filter>")))


def test_a_priority_may_be_repeated_for_another_site() -> None:
    assert len(parsed(document(rule(destination("near")), rule(destination("far"), id="s"))).rules) == 2


def test_prefixes_of_the_old_form_may_meet_at_different_sites() -> None:
    assert len(parsed(document(old_rule("a"), old_rule("a/b", destination("far"), id="s"))).rules) == 2


def test_a_refusal_about_sites_says_what_to_do() -> None:
    unknown = refused(document(rule(destination("mars"))))
    assert "'mars'" in unknown.message and "tidegate location" in unknown.message
    assert "tidegate location create" in refused(document(rule(destination())), ()).message
    unnamed = refused(document(rule(destination()))).message
    assert "StorageClass" in unnamed and not any(site in unnamed for site in SITES)
