"""Moves of which some tasks never come to an end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event as Flag

import pytest

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.movement.move_lister import MoveLister
from tidegate.movement.move_records import MOVED, Move, MoveRecords
from tidegate.ports import Tables

LOST_SECONDS = 3600.0


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    opened = SqliteTables(tmp_path / "tables.db")
    yield opened
    opened.close()


def begun(tables: Tables, name: str, *, listed_ago: float) -> Move:
    """A move of three versions, of which one has arrived."""
    records, now = MoveRecords(tables), time.time()
    listed = {"pages": 1, "total": 3, "is_listed": True, "listed_at": now - listed_ago}
    move = Move(name, "photos", "uid", "", "cold", "cold", now - 10 * LOST_SECONDS, **listed)  # type: ignore[arg-type]
    records.begin(move)
    records.begin_page(name, 0, 3)
    records.note(name, 0, {1: (MOVED, "")})
    return move


def test_a_move_whose_tasks_are_lost_ends_and_no_other(tables: Tables) -> None:
    begun(tables, "recent", listed_ago=LOST_SECONDS / 2)
    begun(tables, "lost", listed_ago=2 * LOST_SECONDS)
    lister = MoveLister(tables, None, None, lost_seconds=LOST_SECONDS, stop=Flag())  # type: ignore[arg-type]
    with closing(lister):
        lister.run_once()
    records = MoveRecords(tables)
    assert [move.id for move in records.under_way()] == ["recent"]
    lost = records.get("lost")
    assert (lost.moved, lost.failed, lost.unchanged) == (1, 2, 0)
    assert lost.reasons[0].startswith("2 tasks were lost")
