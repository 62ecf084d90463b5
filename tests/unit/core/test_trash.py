from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.lifecycle.tasks import ObjectTask
from tidegate.core.pending_deletes import Component, is_owner, owner_metadata
from tidegate.core.placements import Placement
from tidegate.core.trash import (
    TrashRecord,
    destroyed_version,
    entries_of_key,
    in_order_of_restoring,
    in_trash,
)


def placement(**fields: Any) -> Placement:
    values = {
        "id": "p", "pool": "pool", "bucket": "photos", "bucket_uid": "uid", "key": "k", "version_id": "v1",
        "location": "cold", "data_key": "d", "size": 1, "etag": "e", "modified": "", "last_modified": 1.0,
        "storage_class": "COLD", "moved_ns": 1,
    }  # fmt: skip
    return Placement(**(values | fields))


def record(**fields: Any) -> TrashRecord:
    values = {"id": "t", "placement": placement(), "deleted_ns": 1, "until": 2.0}
    return TrashRecord(**(values | fields))


def task(effect: Effect, version_id: str) -> ObjectTask:
    return ObjectTask(
        effect=effect, owner="", bucket="photos", key="k", version_id=version_id, bucket_uid="uid", pass_id="",
        kind=ActionKind.EXPIRATION_DAYS, rule_id="", action_id="", due_ns=0, became_due_ns=0,
    )  # fmt: skip


def test_a_record_is_read_as_it_was_written() -> None:
    written = record(placement=placement(headers=(("A", "b"),), tags=(("c", "d"),), parts=(1, 2)), is_claimed=True)
    assert TrashRecord.from_json(written.to_json()) == written


def test_entries_of_a_key_are_no_entries_of_a_longer_one() -> None:
    assert record().entry.startswith(entries_of_key("uid", "k"))
    assert not record(placement=placement(key="kk")).entry.startswith(entries_of_key("uid", "k"))


@pytest.mark.parametrize(
    ("effect", "version_id", "versioning", "destroyed"),
    [
        (Effect.DELETE, "", Versioning.OFF, ""),
        (Effect.DELETE, "v1", Versioning.ENABLED, "v1"),
        (Effect.DELETE, "null", Versioning.SUSPENDED, "null"),
        (Effect.EXPIRE, "v1", Versioning.ENABLED, None),
        (Effect.EXPIRE, "null", Versioning.SUSPENDED, "null"),
        (Effect.EXPIRE, "v1", Versioning.SUSPENDED, "null"),
        (Effect.REMOVE_MARKER, "v1", Versioning.ENABLED, None),
        (Effect.ABORT_UPLOAD, "", Versioning.OFF, None),
    ],
)
def test_what_a_task_destroys_is_known(
    effect: Effect, version_id: str, versioning: Versioning, destroyed: str | None
) -> None:
    assert destroyed_version(task(effect, version_id), versioning) == destroyed


def test_versions_come_back_the_newest_first_and_of_equal_ones_that_which_was_deleted_last() -> None:
    old = record(id="old", placement=placement(last_modified=1.0), deleted_ns=9)
    new = record(id="new", placement=placement(last_modified=2.0), deleted_ns=5)
    later = record(id="later", placement=placement(last_modified=2.0), deleted_ns=6)
    assert [each.id for each in in_order_of_restoring([old, new, later])] == ["later", "new", "old"]


@pytest.mark.parametrize("deleted", list(permutations(range(3))))
@pytest.mark.parametrize(
    "neighbours",
    [
        {"v0": ("v1", ""), "v1": ("v2", "v0"), "v2": ("", "v1")},
        {"v0": ("v1", ""), "v1": ("v2", ""), "v2": ("", "")},
        {"v0": ("", ""), "v1": ("", "v0"), "v2": ("", "v1")},
        {"v0": ("v2", ""), "v1": ("v2", "v0"), "v2": ("", "v0")},
    ],
)
def test_versions_of_one_second_come_back_as_they_stood(
    neighbours: dict[str, tuple[str, str]], deleted: tuple[int, ...]
) -> None:
    records = [
        record(id=name, placement=placement(version_id=name, above=above, below=below), deleted_ns=at)
        for (name, (above, below)), at in zip(neighbours.items(), deleted, strict=True)
    ]
    assert [each.id for each in in_order_of_restoring(records)] == ["v2", "v1", "v0"]


def test_versions_whose_neighbours_contradict_each_other_come_back_by_when_they_were_deleted() -> None:
    records = [
        record(id=str(at), placement=placement(version_id=name, above=above), deleted_ns=at)
        for at, (name, above) in enumerate((("v1", "v2"), ("v2", "v1")))
    ]
    assert [each.id for each in in_order_of_restoring(records)] == ["1", "0"]


def test_the_trash_keeps_nothing_of_what_the_store_had() -> None:
    kept = in_trash(
        placement(has_stub=True, stub_id="s", has_original=True), location="trash", data_key="t", data_etag="x"
    )
    assert (kept.location, kept.data_key, kept.data_etag) == ("trash", "t", "x")
    assert not (kept.has_stub or kept.stub_id or kept.has_original or kept.is_current)
    assert kept.storage_class == "COLD"


def test_data_in_the_trash_says_that_it_is_a_placements_since_it_may_become_one_again() -> None:
    pending = record().pending(sent_ns=1, not_before=2.0, reason="over")
    owner = {"pool": "pool", "bucket": "photos", "bucket_uid": "uid", "key": "k", "version_id": "v1"}
    assert pending.component is Component.TRASH and pending.not_before == 2.0
    assert is_owner(pending, owner_metadata(Component.PLACEMENT, **owner))
