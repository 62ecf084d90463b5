"""Records of moved versions while something fails amid a step: what is repeated ends well, and no data is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.copies import entry_of as copy_entry
from tidegate.core.errors import Conflict, Unavailable
from tidegate.core.listings import ListedVersion
from tidegate.core.pending_deletes import PendingDelete
from tidegate.core.placements import Placement
from tidegate.gateway.placements import placing, records, settling
from tidegate.gateway.placements.placing import PlaceRequest
from tidegate.gateway.placements.stored_version import NotPlaced
from tidegate.ports import Record
from tidegate.settings import Settings

PLACED = Placement(
    id="id",
    pool="pool",
    bucket="bucket",
    bucket_uid="uid",
    key="k",
    version_id="v1",
    location="cold",
    data_key="data",
    size=3,
    etag="etag",
    modified="then",
    last_modified=100.0,
    storage_class="COLD",
    moved_ns=1,
    listed_etag="etag",
)
VIEW: Any = SimpleNamespace(bucket=SimpleNamespace(name="bucket", uid="uid"))


class Parts:
    """The parts of a gateway that change records. `sent` is what went to deletion, `fails` says that nothing can."""

    def __init__(self, directory: Path) -> None:
        self.tables = SqliteTables(directory / "tables.db")
        self.settings = Settings()
        self.sent: list[PendingDelete] = []
        self.fails = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def deletion_topics(self) -> Parts:
        return self

    def append(self, topic: str, given: Sequence[Record]) -> None:
        if self.fails:
            raise Unavailable("the topic is full")
        self.sent += [PendingDelete.from_bytes(record.value) for record in given]

    def records(self) -> list[Placement]:
        return [Placement.from_json(text) for _, text in self.tables.scan("pl:")]


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.tables.close()


def stored(*ids: str, size: int = 3) -> list[ListedVersion]:
    """Versions of a store, the newest first."""
    return [
        ListedVersion("k", each, number == 0, False, 100.0, "etag", size, "STANDARD", "then")
        for number, each in enumerate(ids)
    ]


def returning(value: object) -> Callable[..., Any]:
    async def answer(*given: object, **named: object) -> object:
        return value

    return answer


def test_a_release_that_failed_after_its_void_record_was_written_is_repeated(
    parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stub of a null version has an id, and stays below the null version that a client has written since."""
    moved = replace(PLACED, version_id="null", modified="before", has_stub=True, stub_id="stub")
    parts.tables.put(moved.entry, moved.to_json())
    monkeypatch.setattr(settling, "stored_versions", returning(stored("null", "stub")))
    monkeypatch.setattr(settling, "stub_names", returning({"null": ""}))
    monkeypatch.setattr(settling, "_stub_name", returning(""))

    def settle() -> None:
        asyncio.run(settling.settle(parts, SimpleNamespace(), VIEW, "k"))  # type: ignore[arg-type]

    parts.fails = True
    with pytest.raises(Unavailable, match="full"):
        settle()
    assert len(parts.records()) == 2
    parts.fails = False
    settle()
    (void,) = parts.records()
    assert (void.is_void, void.stub_id) == (True, "stub")
    assert [pending.data_key for pending in parts.sent] == ["data"]


# --- a copy is placed only while it has a reference ----------------------------------------------

ELSEWHERE = replace(PLACED, location="colder", data_key="other")
ADMISSION: Any = SimpleNamespace(object_key="k", version_id="v1", has_versions=True, pool=SimpleNamespace())


def place(parts: Any, request: PlaceRequest) -> tuple[Placement, bool]:
    exchange: Any = SimpleNamespace(gateway=parts)
    return asyncio.run(placing._placed(exchange, ADMISSION, VIEW, request, ()))  # type: ignore[arg-type]


def test_a_copy_that_nobody_waits_for_is_in_no_record_for_a_moment(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.tables.put(PLACED.entry, PLACED.to_json())
    seen: list[Placement] = []

    def noted(write: Callable[..., bool], *given: Any, **named: Any) -> bool:
        done = write(*given, **named)
        seen.extend(parts.records())
        return done

    for name in ("change", "compare_and_set"):
        monkeypatch.setattr(parts.tables, name, partial(noted, getattr(parts.tables, name)))
    with pytest.raises(NotPlaced, match="nobody waits"):
        place(parts, PlaceRequest("colder", "other", "COLDER"))
    assert parts.records() == [PLACED] and ELSEWHERE.data_key not in {record.data_key for record in seen}


def test_a_copy_whose_own_record_changes_is_placed(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload is noted down in it; what counts is that there is one."""
    entry = copy_entry("colder", "other")
    for known in (PLACED.entry, entry):
        parts.tables.put(known, PLACED.to_json())
    write = parts.tables.change

    def changed_before(*given: Any, **named: Any) -> bool:
        monkeypatch.setattr(parts.tables, "change", write)
        parts.tables.put(entry, "{}")
        return bool(write(*given, **named))

    monkeypatch.setattr(parts.tables, "change", changed_before)
    assert asyncio.run(records.put_copied(parts, ELSEWHERE, PLACED))
    assert parts.records() == [ELSEWHERE]


def test_a_record_that_somebody_else_has_changed_stays(parts: Any) -> None:
    parts.tables.put(copy_entry("colder", "other"), "{}")
    with pytest.raises(Conflict):
        asyncio.run(records.put_copied(parts, ELSEWHERE, PLACED))
    assert parts.records() == []


def test_the_original_of_a_noncurrent_version_goes_also_after_it_could_not_be_sent_to_deletion_at_first(
    parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {b"etag": b'"etag"', b"content-length": b"3", b"x-amz-version-id": b"v1"}
    monkeypatch.setattr(placing, "stored_head", returning(SimpleNamespace(headers=shown)))
    monkeypatch.setattr(placing, "stored_versions", returning(stored("v2", "v1")))
    monkeypatch.setattr(placing, "describe", returning(replace(PLACED, is_current=False)))
    monkeypatch.setattr(settling, "stored_versions", returning(stored("v2", "v1")))
    parts.tables.put(copy_entry("colder", "other"), "{}")
    parts.fails = True
    with pytest.raises(Unavailable, match="full"):
        place(parts, PlaceRequest("colder", "other", "COLDER"))
    parts.fails = False
    place(parts, PlaceRequest("colder", "other", "COLDER"))
    (record,) = parts.records()
    assert (record.data_key, record.has_original) == ("other", True)
    assert [pending.version_id for pending in parts.sent] == ["v1"]
