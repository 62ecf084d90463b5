"""The first phase: only what was sent leaves the record, and what breaks off in between loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from deletion_place import DeletionPlace

from tidegate.core.errors import Unavailable
from tidegate.core.pending_deletes import PendingDelete
from tidegate.movement.pending_deletes import BelievedData, FirstPhase
from tidegate.ports import Record

Update = Callable[[list[str]], None]


def drop(place: DeletionPlace, phase: FirstPhase, data: dict[str, PendingDelete], marked: list[str], update: Update):
    return phase.drop(list(data), marked, data.__getitem__, update)


def test_what_was_sent_leaves_the_record_in_one_update_and_is_deleted(place: DeletionPlace) -> None:
    data = {name: place.put(name) for name in ("one", "two", "three")}
    updates: list[list[str]] = []
    left = drop(place, place.first_phase(), data, ["one", "two"], updates.append)
    assert left == ["three"] and updates == [["three"]]
    assert data["one"] in place.believed and data["three"] not in place.believed
    place.finish()
    assert [place.holds(pending) for pending in data.values()] == [False, False, True]


def test_what_was_not_sent_stays_in_the_record(place: DeletionPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {name: place.put(name) for name in ("one", "two")}
    topics = place.topics
    append = topics.append

    def fail(topic: str, records: Sequence[Record]) -> None:
        if any(b'"two"' in record.value for record in records):
            raise Unavailable("the disk is full")
        append(topic, records)

    monkeypatch.setattr(topics, "append", fail)
    monkeypatch.setattr("tidegate.movement.pending_deletes._BATCH", 1)
    updates: list[list[str]] = []
    assert drop(place, place.first_phase(), data, ["one", "two"], updates.append) == ["two"]
    assert updates == [["two"]]
    assert data["two"] not in place.believed


def test_nothing_is_updated_when_nothing_was_sent(place: DeletionPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(topic: str, records: Sequence[Record]) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(place.topics, "append", fail)
    updates: list[list[str]] = []
    assert drop(place, place.first_phase(), {"one": place.put()}, ["one"], updates.append) == ["one"]
    assert updates == []


def test_data_stays_when_the_process_ends_between_sending_and_updating_the_record(place: DeletionPlace) -> None:
    pending = place.put()
    placement = place.place(pending)

    def killed(left: list[str]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drop(place, place.first_phase(), {"one": pending}, ["one"], killed)
    assert pending not in place.believed
    place.finish()
    assert place.holds(pending) and place.outcomes() == ["in-use"]
    drop(place, place.first_phase(), {"one": pending}, ["one"], lambda left: place.tables.delete(placement.entry))
    place.finish()
    assert not place.holds(pending)


def test_of_very_much_data_the_oldest_is_not_believed_any_more(place: DeletionPlace) -> None:
    believed = BelievedData(most=2)
    first, second, third = (place.put(str(number)) for number in range(3))
    for pending in (first, second, third):
        believed.add(pending)
    assert first not in believed and second in believed and third in believed
