"""Reading pending deletes, also those that lack something, and what their records repeat."""

from __future__ import annotations

import json

import pytest

from tidegate.core.deletion_records import DeletionOutcome, DeletionRecord, IncompletePending, read_pending
from tidegate.core.errors import InvalidInput
from tidegate.core.pending_deletes import Component, DataType, PendingDelete

PENDING = PendingDelete(
    component=Component.PLACEMENT,
    data_type=DataType.LOCATION,
    pool="pool",
    bucket="photos",
    bucket_uid="uid",
    key="key",
    version_id="null",
    sent_ns=1,
    location="cold",
    data_key="pool/uid/1",
    reason="overwritten",
)


def without(*names: str) -> bytes:
    values = json.loads(PENDING.to_bytes())
    return json.dumps({name: value for name, value in values.items() if name not in names}).encode()


def test_a_complete_message_is_a_pending_delete() -> None:
    assert read_pending(PENDING.to_bytes()) == PENDING


@pytest.mark.parametrize("name", ["component", "data_type", "pool", "bucket", "bucket_uid", "key", "sent_ns"])
def test_a_message_that_lacks_a_field_says_which(name: str) -> None:
    found = read_pending(without(name))
    assert isinstance(found, IncompletePending) and found.missing == (name,)


def test_a_message_without_what_its_kind_of_data_needs_is_incomplete() -> None:
    found = read_pending(without("location", "data_key"))
    assert isinstance(found, IncompletePending) and found.missing == ("location", "data_key")


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", PENDING.to_bytes().replace(b"placement", b"of-a-later-day")])
def test_what_cannot_be_read_is_not_taken_for_incomplete(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        read_pending(data)


def test_a_record_repeats_the_message_and_is_read_back() -> None:
    record = DeletionRecord.of(PENDING, DeletionOutcome.IN_USE, "used", at_ns=5, worker="w", origin="t/0/0")
    assert DeletionRecord.from_json(record.to_json()) == record
    assert (record.component, record.data_type, record.key, record.data_key) == (
        "placement", "location", "key", "pool/uid/1",
    )  # fmt: skip
    assert (record.why, record.detail, record.outcome) == ("overwritten", "used", "in-use")


def test_the_record_of_an_incomplete_message_has_what_it_had() -> None:
    found = read_pending(without("bucket"))
    record = DeletionRecord.of(found, DeletionOutcome.INCOMPLETE, "lacks", at_ns=5, worker="w", origin="t/0/0")
    assert (record.bucket, record.key, record.location) == ("", "key", "cold")
