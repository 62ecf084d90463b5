"""What refers to data in a location, and whose data it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.data_references import DataOwner, Reference, ReferenceKind, reference_in
from tidegate.core.pending_deletes import Component, is_owner, owner_metadata
from tidegate.core.placements import Placement

PLACED = Placement(
    id="i",
    pool="p",
    bucket="b",
    bucket_uid="u",
    key="k",
    version_id="v",
    location="cold",
    data_key="p/u/00",
    size=1,
    etag="e",
    modified="2024-10-04T00:00:00.000Z",
    last_modified=1.0,
    storage_class="COLD",
    moved_ns=1,
)


def test_a_placement_refers_to_its_data_in_its_location_and_nowhere_else() -> None:
    assert reference_in(PLACED.entry, PLACED.to_json(), "cold") == Reference(
        "p/u/00", ReferenceKind.PLACEMENT, PLACED.entry, "b", "u", "k", "v"
    )
    assert reference_in(PLACED.entry, PLACED.to_json(), "colder") is None
    named_so = replace(PLACED, key='"location":"colder"', headers=(('"location":"colder"', "x"),))
    assert reference_in(named_so.entry, named_so.to_json(), "colder") is None
    moved_back = replace(PLACED, location="")
    assert reference_in(moved_back.entry, moved_back.to_json(), "cold") is None


def test_a_copy_that_was_begun_refers_to_the_data_that_its_entry_names() -> None:
    found = reference_in("cp:cold/p/u/00", "anything", "cold")
    assert found is not None and (found.data_key, found.kind) == ("p/u/00", ReferenceKind.COPY)
    assert reference_in("cp:colder/p/u/00", "anything", "cold") is None
    assert reference_in("lo:cold", "anything", "cold") is None


@pytest.mark.parametrize("key", ["k", "a b/ü%\n\U0001f600", "x" * 2000, "é" * 500])
def test_the_message_for_an_orphan_is_of_the_owner_that_the_data_names(key: str) -> None:
    owner = {"pool": "p", "bucket": "b", "bucket_uid": "u", "key": key, "version_id": "v"}
    metadata = owner_metadata(Component.PLACEMENT, **owner)
    found = DataOwner.of(metadata)
    assert found is not None
    pending = found.released("cold", "p/u/00", "e", now_ns=5)
    assert (pending.missing, pending.reason, pending.etag, pending.sent_ns) == ((), "orphan", "e", 5)
    assert is_owner(pending, metadata)
    assert not is_owner(pending, {**metadata, "x-amz-meta-tidegate-key": "other"})


def test_data_without_the_metadata_of_an_owner_has_none() -> None:
    metadata = owner_metadata(Component.TRASH, pool="p", bucket="b", bucket_uid="u", key="k", version_id="v")
    assert DataOwner.of({}) is None
    assert DataOwner.of({**metadata, "x-amz-meta-tidegate-component": "stranger"}) is None
    assert DataOwner.of({**metadata, "x-amz-meta-tidegate-application": "stranger"}) is None


def test_data_without_a_component_is_nobodys_and_any_other_is_not_deleted_as_such() -> None:
    metadata = owner_metadata(Component.PLACEMENT, pool="p", bucket="b", bucket_uid="u", key="k", version_id="v")
    unknown = DataOwner(Component.UNKNOWN, "", "", "", "", "").released("cold", "p/u/00", "e", now_ns=5)
    left_by_a_check = {"x-amz-meta-tidegate-application": "tidegate"}
    assert DataOwner.of(left_by_a_check) is None
    assert is_owner(unknown, left_by_a_check) and is_owner(unknown, {})
    assert not is_owner(unknown, metadata)
    assert not is_owner(unknown, {**metadata, "x-amz-meta-tidegate-component": "of a later version"})
