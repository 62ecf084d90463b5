"""Audits of a location, against a real store: orphans are found and removed, lost data is reported."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest
from deletion_place import sent_in
from metadata_log import settings_of
from running_service import RunningService
from second_store import SecondStore

from tidegate.assembly import open_tables
from tidegate.core.locations import Location
from tidegate.core.pending_deletes import Component, owner_metadata
from tidegate.core.placements import Placement
from tidegate.movement.location_check import CHECKS

_PATIENCE_SECONDS = 240.0
_UID = "0123456789abcdef0123456789abcdef"


@dataclass
class Audited:
    """A location of a service, and a hand in both."""

    service: RunningService
    store: SecondStore
    name: str

    def data(
        self, key: str = "k", *, owned: bool = True, data_key: str = "", component: Component = Component.PLACEMENT
    ) -> str:
        """Puts a piece of data there, which says that it is of the key."""
        data_key = data_key or f"{self.name}/pool/{_UID}/{secrets.token_hex(16)}"
        of_key = {"pool": "pool", "bucket": "b", "bucket_uid": _UID, "key": key, "version_id": "null"}
        metadata = owner_metadata(component, **of_key) if owned else {}
        self.store.client().put_object(
            Bucket=self.store.bucket,
            Key=data_key,
            Body=b"data",
            Metadata={name.removeprefix("x-amz-meta-"): value for name, value in metadata.items()},
        )
        return data_key

    def left_by_a_check(self) -> str:
        """What a check of the location that was killed leaves behind."""
        data_key, metadata = f"{self.name}/{CHECKS}0", {"tidegate-application": "tidegate"}
        self.store.client().put_object(Bucket=self.store.bucket, Key=data_key, Body=b"data", Metadata=metadata)
        return data_key

    def place(self, key: str, data_key: str) -> None:
        record = Placement(
            id="i",
            pool="pool",
            bucket="b",
            bucket_uid=_UID,
            key=key,
            version_id="null",
            location=self.name,
            data_key=data_key,
            size=4,
            etag="e",
            modified="",
            last_modified=1.0,
            storage_class=self.name,
            moved_ns=1,
        )
        self.put_entry(record.entry, record.to_json())

    def put_entry(self, entry: str, text: str) -> None:
        with closing(open_tables(settings_of(self.service), self.service.data)) as tables:
            tables.put(entry, text)

    def made_now(self) -> None:
        """As if the location had been made just now. Stores tell whole seconds."""
        with closing(open_tables(settings_of(self.service), self.service.data)) as tables:
            entry = Location.PREFIX + self.name
            known = Location.from_json(tables.get(entry) or "")
            time.sleep(1.1)
            tables.put(entry, replace(known, created_at=time.time()).to_json())
            time.sleep(1.1)

    def audit(self, *options: str) -> Any:
        return self.service.cli("audit", "orphans", self.name, *options)

    def keys(self) -> set[str]:
        return self.store.keys(prefix=f"{self.name}/")


@pytest.fixture(scope="module")
def audited_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    settings = {"audit.orphan_grace_hours": 0, "lifecycle.enabled": "false", "gateway.processes": 1}
    running = RunningService(tmp_path_factory.mktemp("audited") / "data", settings).start()
    yield running
    running.end()


@pytest.fixture
def audited(
    audited_service: RunningService, second_store: SecondStore, fresh_name: Callable[[str], str]
) -> Iterator[Audited]:
    name = fresh_name("audited")
    options = ["--endpoint", second_store.url, "--bucket", second_store.bucket, "--prefix", f"{name}/"]
    keys = ["--access-key", second_store.access_key, "--secret-key-file", str(second_store.secret_file)]
    audited_service.cli("location", "create", name, *options, *keys)
    yield Audited(audited_service, second_store, name)


def test_planted_orphans_are_found_and_removed_and_data_in_use_stays(audited: Audited) -> None:
    stranger = audited.data(owned=False, data_key=f"{audited.name}/was here before")
    audited.made_now()
    kept = {audited.data(f"kept {number}") for number in range(3)}
    for number, data_key in enumerate(sorted(kept)):
        audited.place(f"kept {number}", data_key)
    copied = audited.data("on its way")
    audited.put_entry(f"cp:{audited.name}/{copied}", "{}")
    orphans = {audited.data(f"left over {number} é/\n") for number in range(5)}
    orphans.add(audited.data(owned=False, data_key=f"{audited.name}/put there by hand"))
    orphans.add(audited.left_by_a_check())
    dry = audited.audit("--dry-run", "--show")
    assert (dry["orphans"], dry["foreign"], dry["missing"], dry["sent"], dry["listed"]) == (8, 1, 0, 0, 12)
    assert {entry["data_key"] for entry in dry["first_orphans"]} == {*orphans, stranger}
    assert {*kept, copied, *orphans, stranger} == audited.keys()
    sent = sent_in(audited.service)
    view = audited.audit()
    assert sent_in(audited.service) == sent + 7
    assert (view["orphans"], view["sent"], view["missing"], view["status"]) == (8, 7, 0, "done")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while audited.keys() & orphans and time.monotonic() < deadline:
        time.sleep(0.2)
    assert audited.keys() == {*kept, copied, stranger}
    again = audited.audit()
    assert (again["orphans"], again["foreign"], again["sent"], again["missing"]) == (1, 1, 0, 0)
    assert list((audited.service.data / "audits" / again["id"] / "orphans").glob("*.parquet"))


def test_replicas_are_no_orphans_wherever_they_lie(audited: Audited) -> None:
    audited.made_now()
    replicas = {audited.data(f"replica {number}", component=Component.REPLICA) for number in range(3)}
    replicas.add(audited.data("by its own key", component=Component.REPLICA, data_key=f"{audited.name}/by its own key"))
    orphan = audited.data("left over")
    view = audited.audit()
    assert (view["listed"], view["orphans"], view["foreign"], view["sent"]) == (5, 1, 0, 1)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while {orphan} & audited.keys() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert audited.keys() == replicas


def test_data_removed_by_hand_is_reported_with_the_objects_concerned(audited: Audited) -> None:
    there, lost = audited.data("there"), audited.data("lost\nkey")
    audited.place("there", there)
    audited.place("lost\nkey", lost)
    audited.store.client().delete_object(Bucket=audited.store.bucket, Key=lost)
    view = audited.audit("--show")
    assert (view["orphans"], view["missing"], view["referenced"]) == (0, 1, 2)
    assert view["first_missing"] == [{"bucket": "b", "key": "lost\nkey", "version_id": "null", "data_key": lost}]
    assert "missing: 1" in audited.service.run_cli("audit", "orphans", audited.name).stdout


def test_an_audit_can_be_asked_for_and_looked_at_by_the_api(audited: Audited) -> None:
    audited.data("left over")
    with audited.service.api() as api:
        asked = api.post("/api/v1/audits", json={"location": audited.name, "dry_run": True})
        assert asked.status_code == 202
        where = f"/api/v1/audits/{asked.json()['id']}"
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (view := api.get(where, params={"entries": 5}).json())["status"] not in ("done", "failed"):
            assert time.monotonic() < deadline, view
            time.sleep(0.2)
        assert (view["status"], view["orphans"], len(view["first_orphans"])) == ("done", 1, 1)
        assert view["id"] in [each["id"] for each in api.get("/api/v1/audits").json()]
        assert api.post("/api/v1/audits", json={"location": "nowhere"}).status_code == 404
        assert api.get("/api/v1/audits/none").status_code == 404


def test_a_location_that_does_not_answer_fails_the_audit_and_nothing_is_deleted(
    audited_service: RunningService, fresh_name: Callable[[str], str], second_store: SecondStore
) -> None:
    name = fresh_name("away")
    options = ["--endpoint", "http://127.0.0.1:9", "--bucket", "cold", "--access-key", "k"]
    audited_service.cli("location", "create", name, *options, "--secret-key-file", str(second_store.secret_file))
    done = audited_service.run_cli("audit", "orphans", name)
    assert done.returncode == 1
    assert "does not answer" in done.stdout
