"""Whether records refer to data, while they change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.copies import entry_of as copy_entry
from tidegate.core.pending_deletes import Component, DataType, PendingDelete
from tidegate.core.placements import Placement
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.core.trash import TrashRecord
from tidegate.movement.in_use import NotYet, Owners, is_kept
from tidegate.ports import Tables

PLACED = Placement(
    id="1",
    pool="p",
    bucket="b",
    bucket_uid="uid",
    key="k",
    version_id="null",
    location="cold",
    data_key="p/uid/0",
    size=1,
    etag="e",
    modified="",
    last_modified=0.0,
    storage_class="cold",
    moved_ns=1,
)
KEPT = TrashRecord("id", PLACED, 1, until=1e12)
PENDING = PendingDelete(
    component=Component.PLACEMENT,
    data_type=DataType.LOCATION,
    pool="p",
    bucket="b",
    bucket_uid="uid",
    key="k",
    version_id="null",
    sent_ns=1,
    location="cold",
    data_key="p/uid/0",
)


class Changing:
    """Tables in which `change` is made after so many reads."""

    def __init__(self, tables: Tables, change: dict[str, str | None], reads: int) -> None:
        self._tables = tables
        self._change = change
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def get(self, key: str) -> str | None:
        return self._asked(self._tables.get(key))

    def scan(self, *given: Any, **options: Any) -> list[tuple[str, str]]:
        return self._asked(self._tables.scan(*given, **options))

    def _asked(self, answer: Any) -> Any:
        self._reads -= 1
        if self._reads == 0:
            self._tables.change(self._change)
        return answer


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    opened = SqliteTables(tmp_path / "tables.db")
    yield opened
    opened.close()


COPIED = {copy_entry("cold", "p/uid/0"): "{}"}


@pytest.mark.parametrize("component", [Component.PLACEMENT, Component.TRASH])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (COPIED, {PLACED.entry: PLACED.to_json()}),
        (COPIED, {KEPT.entry: KEPT.to_json()}),
        ({KEPT.entry: KEPT.to_json()}, {PLACED.entry: PLACED.to_json()}),
    ],
    ids=["placed", "kept", "brought back"],
)
@pytest.mark.parametrize("reads", [1, 2])
def test_data_that_goes_from_one_record_to_another_is_in_use_all_the_time(
    tables: Tables, component: Component, before: dict[str, str], after: dict[str, str], reads: int
) -> None:
    tables.change(dict(before))
    changing = Changing(tables, dict.fromkeys(before) | after, reads)
    assert Owners(changing).in_use(replace(PENDING, component=component))  # type: ignore[arg-type]


@pytest.mark.parametrize("component", [Component.PLACEMENT, Component.TRASH])
@pytest.mark.parametrize("record", [PLACED, KEPT])
def test_data_is_in_use_by_whatever_name_its_bucket_is_known(
    tables: Tables, component: Component, record: Placement | TrashRecord
) -> None:
    tables.put(record.entry, record.to_json())
    assert Owners(tables).in_use(replace(PENDING, component=component, location="another-name"))
    assert not Owners(tables).in_use(replace(PENDING, component=component, data_key="p/uid/1"))


def test_data_in_the_trash_is_due_when_its_message_is_though_the_clock_is_set_back(tables: Tables) -> None:
    record = dataclasses.replace(KEPT, until=1000.0)
    tables.put(record.entry, record.to_json())
    pending = replace(PENDING, component=Component.TRASH, not_before=1000.0)
    assert is_kept(tables, replace(pending, not_before=990.0), now=lambda: 995.0), "the message of an earlier attempt"
    assert not is_kept(tables, pending, now=lambda: 995.0)
    assert tables.get(record.entry) is None


def test_a_claim_outlives_the_end_of_the_grace_for_an_hour(tables: Tables) -> None:
    record = dataclasses.replace(KEPT, until=1000.0, is_claimed=True)
    tables.put(record.entry, record.to_json())
    pending = replace(PENDING, component=Component.TRASH, not_before=1000.0)
    with pytest.raises(NotYet) as raised:
        is_kept(tables, pending, now=lambda: 4599.0)
    assert raised.value.not_before == 4600.0
    assert tables.get(record.entry) is not None
    assert not is_kept(tables, pending, now=lambda: 4600.0)
    assert tables.get(record.entry) is None


def replicated(tables: Tables, version_id: str, copy_id: str, *, site: str = "oslo", bucket: str = "copies") -> None:
    state = SiteState(site, bucket, Status.COMPLETED, 1.0, replica_version_id=copy_id)
    record = ReplicationRecord("p", "b", "uid", "k", version_id, 1, 1.0, is_marker=True, sites=(state,))
    tables.put(record.entry, record.to_json())


def replica(copy_id: str) -> PendingDelete:
    """Of the version `v1`."""
    where = {"location": "oslo", "data_key": "k", "data_bucket": "copies", "data_version_id": copy_id}
    return replace(PENDING, component=Component.REPLICA, version_id="v1", **where)


def test_a_copy_at_a_site_is_in_use_while_a_version_of_its_key_has_it(tables: Tables) -> None:
    replicated(tables, "v1", "c1")
    replicated(tables, "v2", "c2")
    owners = Owners(tables)
    assert owners.in_use(replica("c1"))
    assert owners.in_use(replica("c2")), "another version has it"
    assert not owners.in_use(replica("c3"))


def test_a_copy_at_another_site_or_in_another_bucket_is_another_one(tables: Tables) -> None:
    replicated(tables, "v1", "c1", site="paris")
    replicated(tables, "v2", "c1", bucket="others")
    assert not Owners(tables).in_use(replica("c1"))
