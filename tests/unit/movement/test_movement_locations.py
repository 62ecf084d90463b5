"""Locations in the tables and in the settings; nothing is sent to their endpoints here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.assembly import open_location
from tidegate.core.copies import COPIES
from tidegate.core.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from tidegate.core.lifecycle.rules import Filter
from tidegate.core.locations import Location
from tidegate.core.placements import Placement
from tidegate.core.records import Bucket
from tidegate.core.replication.records import OpenVersion, Status, open_entry
from tidegate.core.replication.rules import REPLICATION, ReplicationRule, ReplicationRules
from tidegate.core.trash import TrashRecord
from tidegate.movement.location_views import view_location
from tidegate.movement.locations import Locations
from tidegate.movement.move_records import Move, MoveRecords, Tally
from tidegate.movement.pending_deletes import AWAITING_GRACE
from tidegate.pools.vault import Vault
from tidegate.ports import Tables
from tidegate.settings import load

OPTIONS: dict[str, Any] = {
    "endpoint": "http://127.0.0.1:1",
    "bucket": "archive",
    "access_key": "KEY",
    "secret": "very-secret",
    "now": 1000.0,
}
CONFIGURED = (
    "locations.fixed.endpoint=https://s3.example.org",
    "locations.fixed.bucket=fixed",
    "locations.fixed.access_key=FIXED",
    "locations.fixed.secret_key=fixed-secret",
    "locations.fixed.prefix=deep/er",
)

Make = Callable[..., Locations]


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    opened = SqliteTables(tmp_path / "tables.db")
    yield opened
    opened.close()


@pytest.fixture
def make(tables: Tables, tmp_path: Path) -> Iterator[Make]:
    made: list[Locations] = []

    def locations(*overrides: str, **options: Any) -> Locations:
        configured = load(tmp_path, overrides=overrides).locations
        made.append(Locations(tables, Vault.open(tmp_path), configured, open_location, **options))
        return made[-1]

    yield locations
    for each in made:
        each.close()


def idle() -> int:
    """All pending deletes are finished."""
    return 0


def placed(location: str, key: str = "k") -> Placement:
    return Placement(
        id="1",
        pool="p",
        bucket="b",
        bucket_uid="uid",
        key=key,
        version_id="null",
        location=location,
        data_key="p/uid/0",
        size=1,
        etag="e",
        modified="",
        last_modified=0.0,
        storage_class="cold",
        moved_ns=1,
    )


def test_a_location_is_made_found_and_listed_by_every_process(make: Make) -> None:
    made = make().create("cold", **OPTIONS, prefix="pre", storage_classes=["A", "B", "A"], concurrency=3)
    other = make()
    assert other.get("cold") == made and list(other.all()) == [made]
    assert (made.prefix, made.storage_classes, made.concurrency) == ("pre/", ("A", "B"), 3)
    assert (other.bucket("cold"), other.prefix("cold")) == ("archive", "pre/")


def test_the_storage_class_defaults_to_the_name(make: Make) -> None:
    assert make().create("cold", **OPTIONS).storage_classes == ("cold",)


def test_a_secret_is_sealed_and_opened_for_the_store_alone(make: Make, tables: Tables) -> None:
    locations = make()
    made = locations.create("cold", **OPTIONS)
    assert "very-secret" not in (tables.get("lo:cold") or "") and "very-secret" not in repr(made)
    assert locations.secret(made) == "very-secret"
    assert "very-secret" not in view_location(locations, made).model_dump_json()


def test_a_name_is_taken_once(make: Make) -> None:
    make().create("cold", **OPTIONS)
    with pytest.raises(AlreadyExists):
        make().create("cold", **OPTIONS)


def test_what_is_wrong_with_a_location_is_told_before_anything_is_kept(make: Make, tmp_path: Path) -> None:
    locations = make()
    with pytest.raises(InvalidInput):
        locations.create("Cold", **OPTIONS)
    with pytest.raises(InvalidInput, match="stands for all sites"):
        locations.create("all", **OPTIONS)
    with pytest.raises(InvalidInput, match=r"authorities\.pem"):
        secure = OPTIONS | {"endpoint": "https://127.0.0.1:1", "ca_file": str(tmp_path / "authorities.pem")}
        locations.create("cold", **secure)
    assert list(locations.all()) == []


def test_locations_of_the_settings_stand_beside_the_others_and_are_left_alone(make: Make) -> None:
    locations = make(*CONFIGURED)
    locations.create("cold", **OPTIONS)
    assert [location.name for location in locations.all()] == ["cold", "fixed"]
    fixed = locations.get("fixed")
    assert (fixed.prefix, fixed.storage_classes, locations.secret(fixed)) == ("deep/er/", ("fixed",), "fixed-secret")
    with pytest.raises(AlreadyExists, match="settings"):
        locations.create("fixed", **OPTIONS)
    with pytest.raises(Conflict, match="settings"):
        locations.remove("fixed", idle)
    with pytest.raises(InvalidInput, match="fixed already"):
        locations.create("other", **OPTIONS | {"bucket": "other"}, storage_classes=["fixed"])
    views = {each.name: view_location(locations, each) for each in locations.all()}
    assert (views["fixed"].source, views["fixed"].created_at) == ("settings", None)
    assert views["cold"].source == "tables" and views["cold"].created_at is not None


@pytest.mark.parametrize("name", ["cold", "", "lo:", "fixed"])
def test_what_is_not_there_is_not_found(make: Make, name: str) -> None:
    locations = make()
    for call in (
        locations.get,
        locations.store,
        locations.bucket,
        partial(locations.remove, deletes_in_flight=idle),
        locations.check,
    ):
        with pytest.raises(NotFound):
            call(name)


def test_a_location_is_removed_when_no_data_is_left(make: Make, tables: Tables) -> None:
    locations = make()
    for number, name in enumerate(("cold", "cold-2")):
        locations.create(name, **OPTIONS, prefix=f"{number}/")
    record = placed("cold")
    tables.put(record.entry, record.to_json())
    tables.put(placed("cold-2", "l").entry, placed("cold-2", "l").to_json())
    tables.put(f"{COPIES}cold-2/data", "{}")
    with pytest.raises(Conflict, match=r"data of b/k.*--back"):
        locations.remove("cold", idle)
    noncurrent = replace(record, is_current=False)
    tables.put(noncurrent.entry, noncurrent.to_json())
    with pytest.raises(Conflict, match=r"data of b/k.*cannot be moved back.*--to LOCATION --versions"):
        locations.remove("cold", idle)
    tables.delete(record.entry)
    tables.put(f"{COPIES}cold/data", "{}")
    with pytest.raises(Conflict, match="on its way"):
        locations.remove("cold", idle)
    tables.delete(f"{COPIES}cold/data")
    locations.remove("cold", idle)
    assert [location.name for location in make().all()] == ["cold-2"]


def test_a_location_stays_while_deletes_are_pending_that_do_not_wait_for_a_grace(
    make: Make, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.movement.locations._PATIENCE_SECONDS", 0.1)
    locations = make()
    for name in ("cold", "trash"):
        locations.create(name, **OPTIONS | {"bucket": name})
    kept = TrashRecord("id", placed("trash"), 1, until=2.0)
    tables.put(kept.entry, kept.to_json())
    with pytest.raises(Conflict, match=r"not finished \(1\).*deletion status"):
        locations.remove("cold", lambda: 1)
    tables.put(f"{AWAITING_GRACE}trash/deletion/0/1", repr(time.time() + 600))
    with pytest.raises(Conflict, match=r"not finished \(1\).*deletion status"):
        locations.remove("cold", lambda: 2)
    assert locations.get("cold").name == "cold"
    locations.remove("cold", lambda: 1)


def test_what_waited_for_the_end_of_a_grace_and_is_due_meanwhile_is_pending(
    make: Make, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.movement.locations._PATIENCE_SECONDS", 0.1)
    locations = make()
    locations.create("cold", **OPTIONS)
    tables.put(f"{AWAITING_GRACE}trash/deletion/0/1", repr(time.time()))
    with pytest.raises(Conflict, match=r"not finished \(1\)"):
        locations.remove("cold", lambda: 1)


def test_a_removal_waits_for_deletes_that_were_just_sent(make: Make) -> None:
    locations, counts = make(), iter([2, 1, 0, 0])
    locations.create("cold", **OPTIONS)
    locations.remove("cold", lambda: next(counts))
    assert make().all() == []


def test_a_location_stays_if_data_is_sent_to_deletion_while_it_is_removed(make: Make) -> None:
    locations, counts = make(), iter([0, 1])
    locations.create("cold", **OPTIONS)
    with pytest.raises(Conflict, match="pending deletes"):
        locations.remove("cold", lambda: next(counts))
    assert make().get("cold").name == "cold"


@pytest.mark.parametrize("enabled", [True, False])
def test_a_location_stays_while_replication_rules_name_it(make: Make, tables: Tables, enabled: bool) -> None:
    locations = make()
    for name in ("near", "far", "idle"):
        locations.create(name, **OPTIONS | {"bucket": name})
    bucket = Bucket("photos", "p", "uid", "none", 1.0)
    tables.put(Bucket.PREFIX + bucket.name, bucket.to_json())
    rule = ReplicationRule("r", 1, enabled, Filter(), "copies", ("near", "far"))
    tables.put(REPLICATION + bucket.uid, ReplicationRules((rule,)).to_json())
    for name in ("near", "far"):
        with pytest.raises(Conflict, match=f"the replication rules of bucket photos name location {name}"):
            locations.remove(name, idle)
    locations.remove("idle", idle)
    tables.put(REPLICATION + "gone", ReplicationRules((rule,)).to_json())
    tables.delete(REPLICATION + bucket.uid)
    locations.remove("near", idle)
    assert [location.name for location in locations.all()] == ["far"]


@pytest.mark.parametrize("status", list(Status))
def test_a_location_stays_while_versions_are_on_their_way_to_it(make: Make, tables: Tables, status: Status) -> None:
    locations = make()
    locations.create("cold", **OPTIONS)
    tables.put(open_entry("cold", "uid", "a/b:c", "v1"), OpenVersion("photos", status, 1, 0.0, 5).to_json())
    if status is Status.PENDING:
        with pytest.raises(Conflict, match="versions of bucket photos are on their way to site cold"):
            locations.remove("cold", idle)
    else:
        locations.remove("cold", idle)
    assert [location.name for location in locations.all()] == (["cold"] if status is Status.PENDING else [])


def test_a_location_stays_while_a_move_to_it_is_under_way(make: Make, tables: Tables) -> None:
    locations, records = make(), MoveRecords(tables)
    for name in ("cold", "idle"):
        locations.create(name, **OPTIONS | {"bucket": name})
    move = Move("m1", "photos", "uid", "", "cold", "cold", 1.0)
    records.begin(move)
    with pytest.raises(Conflict, match="move m1 to location cold is under way"):
        locations.remove("cold", idle)
    locations.remove("idle", idle)
    records.end(move.ended(Tally(), now=2.0))
    locations.remove("cold", idle)
    assert locations.all() == []


def test_a_location_stays_if_a_copy_begins_while_it_is_removed(make: Make, tables: Tables) -> None:
    class Meddling:
        """Tables in which a copy begins when the location was taken out."""

        def __getattr__(self, name: str) -> Any:
            return getattr(tables, name)

        def compare_and_set(self, *given: Any, **options: Any) -> bool:
            tables.put(f"{COPIES}cold/data", "{}")
            return tables.compare_and_set(*given, **options)

    make().create("cold", **OPTIONS)
    locations = make()
    locations._tables = Meddling()  # type: ignore[assignment]
    with pytest.raises(Conflict):
        locations.remove("cold", idle)
    assert make().get("cold").name == "cold"


def test_a_store_is_kept_until_its_location_is_another(make: Make) -> None:
    locations, elsewhere = make(), make()
    locations.create("cold", **OPTIONS)
    store = locations.store("cold")
    assert locations.store("cold") is store
    elsewhere.remove("cold", idle)
    with pytest.raises(NotFound):
        locations.store("cold")
    elsewhere.create("cold", **OPTIONS | {"secret": "another"})
    assert locations.store("cold") is not store


def test_others_are_told_of_each_change(make: Make) -> None:
    changes: list[str] = []
    locations = make(changed=lambda: changes.append("changed"))
    locations.create("cold", **OPTIONS)
    assert len(changes) == 1
    locations.remove("cold", idle)
    assert len(changes) == 2


def test_an_endpoint_that_is_down_fails_the_check_at_its_first_request(make: Make) -> None:
    locations = make()
    locations.create("cold", **OPTIONS)
    result = locations.check("cold")
    assert not result.ok and result.message.startswith("write: the S3 endpoint 127.0.0.1:1 does not answer")
    assert [(step.step, step.ok) for step in result.steps] == [("connect", True), ("write", False), ("delete", False)]


def test_records_of_an_older_version_are_read(tables: Tables, make: Make) -> None:
    tables.put(
        Location.PREFIX + "old",
        '{"name":"old","endpoint":"http://h","bucket":"bbb","access_key":"K","secret":"s","created_at":1.0,"new":1}',
    )
    assert make().get("old").concurrency == 8
