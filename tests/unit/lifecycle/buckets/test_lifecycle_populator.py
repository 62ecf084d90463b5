"""The queue populator keeps the list of buckets with rules to carry out."""

from __future__ import annotations

from lifecycle_place import DAYS, LOG, LifecyclePlace, rule_set

from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.cursors import CURSORS
from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.lifecycle.rules_xml import parse_lifecycle
from tidegate.core.records import Bucket, BucketState
from tidegate.lifecycle.buckets.bucket_list import reconcile
from tidegate.ports import Record


def put_rules(place: LifecyclePlace, bucket: Bucket, rules: RuleSet | None) -> None:
    """As the gateway does: first the table, then the log."""
    if rules is None:
        place.tables.delete(LIFECYCLE + bucket.uid)
    else:
        place.tables.put(LIFECYCLE + bucket.uid, rules.to_json())
    place.log(EventKind.BUCKET_ATTRIBUTES, bucket, lifecycle=rules.digest() if rules is not None else "")


def test_buckets_come_and_go_with_their_rules(place: LifecyclePlace) -> None:
    place.pool()
    populator, bucket = place.populator(), place.bucket("photos")
    place.log(EventKind.BUCKET_CREATED, bucket)
    populator.run_once()
    assert place.listed() == []
    put_rules(place, bucket, rule_set(DAYS))
    populator.run_once()
    populator.run_once()
    assert place.listed() == [("photos", bucket.uid)]
    assert place.tables.get(f"lifecycle/data/buckets/owner:{bucket.uid}:photos") == "null"
    put_rules(place, bucket, None)
    populator.run_once()
    assert place.listed() == []


def test_a_bucket_whose_rules_are_all_disabled_is_not_listed(place: LifecyclePlace) -> None:
    place.pool()
    body = f"<LifecycleConfiguration><Rule><Status>Disabled</Status>{DAYS}</Rule></LifecycleConfiguration>"
    put_rules(place, place.bucket("photos"), parse_lifecycle(body.encode()))
    place.populator().run_once()
    assert place.listed() == []


def test_a_bucket_made_anew_under_the_same_name_is_another(place: LifecyclePlace) -> None:
    place.pool()
    populator, first = place.populator(), place.bucket("photos")
    put_rules(place, first, rule_set(DAYS))
    populator.run_once()
    known = [f"{prefix}{first.uid}" for prefix in (LIFECYCLE, CURSORS, BucketState.PREFIX)]
    for entry in known[1:]:
        place.tables.put(entry, "{}")
    place.log(EventKind.BUCKET_DELETED, first)
    place.registry.delete_bucket("photos")
    second = place.bucket("photos")
    place.log(EventKind.BUCKET_CREATED, second)
    populator.run_once()
    assert place.listed() == []
    assert [place.tables.get(entry) for entry in known] == [None] * 3
    put_rules(place, second, rule_set(DAYS))
    populator.run_once()
    assert place.listed() == [("photos", second.uid)]


def test_an_event_of_an_earlier_bucket_that_comes_late_changes_nothing(place: LifecyclePlace) -> None:
    place.pool()
    first = place.bucket("photos")
    put_rules(place, first, rule_set(DAYS))
    place.registry.delete_bucket("photos")
    place.bucket("photos")
    place.populator().run_once()
    assert place.listed() == []


def test_what_the_log_holds_no_more_is_taken_from_the_tables(place: LifecyclePlace) -> None:
    place.pool()
    bucket = place.bucket("photos")
    place.tables.put(LIFECYCLE + bucket.uid, rule_set(DAYS).to_json())
    place.bucket("plain")
    reconcile(place.tables)
    assert place.listed() == [("photos", bucket.uid)]


def test_a_record_that_is_no_event_is_left_out(place: LifecyclePlace) -> None:
    place.pool()
    place.topics.append(LOG, [Record("k", b'{"operation":"bucket-attributes"'), Record("k", b"\xff")])
    bucket = place.bucket("photos")
    put_rules(place, bucket, rule_set(DAYS))
    place.topics.append(LOG, [Record("k", Event(1, EventKind.PUT, "pool", "photos", bucket.uid, key="a").to_bytes())])
    assert place.populator().run_once() == 4
    assert place.listed() == [("photos", bucket.uid)]
