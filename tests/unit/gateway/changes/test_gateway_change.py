"""A change: what it holds, and what is left of it however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from gateway_records import Records

from tidegate.core.errors import Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.gateway.changes.change import Change
from tidegate.gateway.changes.intents import Intents
from tidegate.gateway.changes.key_locks import KeyLocks
from tidegate.gateway.changes.log_writer import NoLogWriter
from tidegate.gateway.requests.admission import Admission

BUCKET = "p-bucket"


class Parts:
    """The parts of a gateway that a change needs; what was given to the healer and the gate is noted down."""

    def __init__(self, directory: Path) -> None:
        self.key_locks = KeyLocks(directory / "order")
        self.intents = Intents(directory / "intents")
        self.log_writer: Any = NoLogWriter()
        self.doubted: list[int] = []
        self.closed: list[str] = []
        self.refusal: Unavailable | None = None
        self.healer = SimpleNamespace(doubt=self.doubted.append)
        self.gate = SimpleNamespace(close=self.closed.append)
        self.loop: Any = SimpleNamespace(create_future=lambda: asyncio.get_running_loop().create_future())

    def check_writable(self, admission: Admission) -> None:
        if self.refusal is not None:
            raise self.refusal

    def close(self) -> None:
        self.key_locks.close()
        self.intents.close()


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def admission(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admission]:
    records = Records(tmp_path_factory.mktemp("change"))
    records.add_pool("p")
    yield uvloop.run(records.admitted(records.head("PUT", f"/{BUCKET}/k", "p")))
    records.close()


def change(parts: Parts) -> Change:
    return Change(parts, BUCKET)  # type: ignore[arg-type]


def test_a_change_keeps_its_key_from_others_until_it_is_unlocked(parts: Parts) -> None:
    one, other = change(parts), change(parts)
    assert one.try_lock("k") and one.is_locked
    assert one.try_lock("k"), "it has the lock already"
    assert not other.try_lock("k") and not other.is_locked
    assert other.try_lock("another key")
    one.unlock()
    one.unlock()
    assert change(parts).try_lock("k")


def test_whoever_ended_while_waiting_for_a_lock_does_not_keep_it(parts: Parts) -> None:
    async def main() -> None:
        holder, waiter = change(parts), change(parts)
        assert holder.try_lock("k")
        waiting = asyncio.create_task(waiter.lock(["k", "a"]))
        await asyncio.sleep(0.005)
        waiter.end()
        holder.unlock()
        with pytest.raises(Unavailable, match="has ended"):
            await waiting
        assert not waiter.is_locked
        later = change(parts)
        await later.lock(["a", "k"])
        assert later.is_locked

    uvloop.run(main())


@pytest.mark.parametrize("ends_first", [False, True])
def test_an_intent_that_is_open_at_the_end_goes_to_the_healer_once(
    parts: Parts, admission: Admission, ends_first: bool
) -> None:
    made = change(parts)
    made.open_intent(admission)
    assert made.has_intent and parts.intents.count() == 1
    if not ends_first:
        made.close_intent()
    made.end()
    made.end()
    assert len(parts.doubted) == int(ends_first)
    made.close_intent()  # the log has it after all
    assert parts.intents.count() == 0


def test_a_change_that_was_refused_leaves_nothing(parts: Parts, admission: Admission) -> None:
    made = change(parts)
    assert made.try_lock("k")
    made.open_intent(admission)
    made.refused()
    made.end()
    assert (parts.intents.count(), parts.doubted, made.is_locked) == (0, [], False)


def test_what_cannot_be_written_now_is_not_noted_down(parts: Parts, admission: Admission) -> None:
    parts.refusal = Unavailable("there is too little space")
    made = change(parts)
    with pytest.raises(Unavailable, match="too little"):
        made.open_intent(admission)
    assert not made.has_intent and parts.closed == []


def test_the_gate_closes_when_a_change_cannot_be_noted_down(
    parts: Parts, admission: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(line: bytes) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(parts.intents, "_write", fail)
    made = change(parts)
    with pytest.raises(Unavailable):
        made.open_intent(admission)
    assert parts.closed == ["the disk is full"] and not made.has_intent


def test_times_of_a_key_rise_over_its_changes(parts: Parts) -> None:
    times = []
    for _ in range(3):
        made = change(parts)
        assert made.try_lock("k")
        times.append(made.event_time("k"))
        made.end()
    assert times == sorted(set(times))


def test_a_log_that_fails_is_told_to_who_waits(parts: Parts) -> None:
    failure = Unavailable("the log is gone")
    parts.log_writer = SimpleNamespace(append=lambda records, done: done(failure))
    event = Event(1, EventKind.PUT, "p", BUCKET, "uid", key="k")

    async def main() -> None:
        with pytest.raises(Unavailable, match="the log is gone"):
            await change(parts).log([event])
        await change(parts).log([])  # nothing is to be written

    uvloop.run(main())
