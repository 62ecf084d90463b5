"""Threads of workers wait while a server is away, and end their process on any other fault."""

from __future__ import annotations

from threading import Event as Flag

import pytest

from tidegate.core.errors import Unavailable
from tidegate.workers import worker_thread
from tidegate.workers.process import run_threads
from tidegate.workers.worker_thread import WorkerThread


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_thread, "_PAUSE_SECONDS", 0.01)


def test_it_goes_on_when_what_was_away_is_back_and_closes_at_the_end() -> None:
    stop = Flag()
    rounds: list[str] = []

    def work() -> None:
        rounds.append("work")
        if len(rounds) < 3:
            raise Unavailable("the tables are away") if len(rounds) == 1 else OSError("no space")
        stop.set()

    thread = WorkerThread("worker", work, lambda: rounds.append("closed"), stop)
    assert run_threads([thread], stop) == 0
    assert rounds == ["work", "work", "work", "closed"]


def test_a_fault_ends_the_other_threads_and_the_process_with_an_error() -> None:
    stop = Flag()
    closed = []

    def fail() -> None:
        raise ZeroDivisionError

    def work() -> None:
        stop.wait(60)

    threads = [
        WorkerThread("failing", fail, lambda: closed.append("failing"), stop),
        WorkerThread("working", work, lambda: closed.append("working"), stop),
    ]
    assert run_threads(threads, stop) == 1
    assert closed == ["working"]


def test_what_cannot_be_closed_is_left_to_its_expiry() -> None:
    stop = Flag()

    def close() -> None:
        raise Unavailable("the tables are away")

    assert run_threads([WorkerThread("worker", stop.set, close, stop)], stop) == 0
