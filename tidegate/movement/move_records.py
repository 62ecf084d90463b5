"""Moves that operators ask for, as the tables know them.

A move is listed page by page, and what became of each version is noted in the entry of its page, at its place. A status
that comes twice is so counted once, however often a process is killed.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple, Self

from tidegate.core.codec import JsonRecord
from tidegate.core.errors import NotFound
from tidegate.ports import Tables
from tidegate.table_pages import every

# Entries of the tables: `mv:ID`, `mv-open:ID` while it is under way, `mv-page:ID/NUMBER`.
MOVES, OPEN, PAGES = "mv:", "mv-open:", "mv-page:"
_KEPT_SECONDS = 30 * 86_400.0
_MOST_REASONS = 10
WAITING, MOVED, FAILED, UNCHANGED = ".", "m", "f", "u"


class Tally(NamedTuple):
    """How many ended how, with the first reasons of failures."""

    moved: int = 0
    failed: int = 0
    unchanged: int = 0
    waiting: int = 0
    reasons: tuple[str, ...] = ()

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.moved + other.moved,
            self.failed + other.failed,
            self.unchanged + other.unchanged,
            self.waiting + other.waiting,
            (*self.reasons, *other.reasons)[:_MOST_REASONS],
        )


@dataclass(frozen=True, slots=True)
class Move(JsonRecord):
    """Moves what begins with `prefix` to `location`, or `back`. `marker` and `pages` say how far it is listed, and
    `listed_at` when all was; `total` and `bytes` are what was found to move, `skipped` lay there already. The last four
    are known when it has ended."""

    id: str
    bucket: str
    bucket_uid: str
    prefix: str
    location: str
    storage_class: str
    began_at: float
    back: bool = False
    versions: bool = False
    dry_run: bool = False
    marker: str = ""
    pages: int = 0
    is_listed: bool = False
    total: int = 0
    bytes: int = 0
    skipped: int = 0
    problem: str = ""
    listed_at: float = 0.0
    ended_at: float | None = None
    moved: int = 0
    failed: int = 0
    unchanged: int = 0
    reasons: tuple[str, ...] = ()

    @staticmethod
    def new_id(now: float) -> str:
        """Later ones sort after earlier ones."""
        return f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S.%f}-{secrets.token_hex(3)}"

    def ended(self, tally: Tally, *, now: float) -> Self:
        return replace(
            self,
            ended_at=now,
            moved=tally.moved,
            failed=tally.failed,
            unchanged=tally.unchanged,
            reasons=tally.reasons,
        )


@dataclass(frozen=True, slots=True)
class MovePage(JsonRecord):
    """A letter for each version of the page, by its place, and the first reasons of failures."""

    outcomes: str
    reasons: tuple[str, ...] = ()

    def with_outcomes(self, found: Mapping[int, tuple[str, str]]) -> Self:
        """`found` has a letter and a reason by place. What was noted before stays."""
        letters, reasons = list(self.outcomes), list(self.reasons)
        for place, (letter, reason) in found.items():
            if place < len(letters) and letters[place] == WAITING:
                letters[place] = letter
                if letter == FAILED:
                    reasons.append(reason)
        return replace(self, outcomes="".join(letters), reasons=tuple(reasons[:_MOST_REASONS]))

    @property
    def tally(self) -> Tally:
        moved, failed, unchanged, waiting = map(self.outcomes.count, (MOVED, FAILED, UNCHANGED, WAITING))
        return Tally(moved, failed, unchanged, waiting, self.reasons)


class ItemId(NamedTuple):
    """Which version of a move a task is about; the `request_id` of the task."""

    move_id: str
    page: int
    place: int

    @classmethod
    def parse(cls, text: str) -> ItemId | None:
        move_id, page, place = ([*text.split("/"), "", ""])[:3]
        return cls(move_id, int(page), int(place)) if page.isdigit() and place.isdigit() else None

    def __str__(self) -> str:
        return f"{self.move_id}/{self.page}/{self.place}"


class MoveRecords:
    """May be shared by threads."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def begin(self, move: Move) -> None:
        self._tables.put(MOVES + move.id, move.to_json())
        self._tables.put(OPEN + move.id, "")

    def get(self, move_id: str) -> Move:
        text = self._tables.get(MOVES + move_id)
        if text is None:
            raise NotFound(f"there is no move {move_id}; `tidegate move list` shows those of the last 30 days")
        return Move.from_json(text)

    def newest(self, count: int) -> list[Move]:
        """The newest ones, the oldest of them first: ids begin with the time."""
        return [Move.from_json(text) for _, text in every(self._tables, MOVES)][-count:]

    def under_way(self) -> list[Move]:
        ids = [key.removeprefix(OPEN) for key, _ in every(self._tables, OPEN)]
        return [Move.from_json(text) for text in (self._tables.get(MOVES + name) for name in ids) if text is not None]

    def update(self, move: Move) -> None:
        self._tables.put(MOVES + move.id, move.to_json())

    def end(self, move: Move) -> None:
        self._tables.put(MOVES + move.id, move.to_json(), expires_in=_KEPT_SECONDS)
        self._tables.delete(OPEN + move.id)
        for key, _ in list(every(self._tables, f"{PAGES}{move.id}/")):
            self._tables.delete(key)

    # --- pages -----------------------------------------------------------------------------------

    def begin_page(self, move_id: str, number: int, count: int) -> None:
        self._tables.put(_page(move_id, number), MovePage(WAITING * count).to_json())

    def note(self, move_id: str, number: int, found: Mapping[int, tuple[str, str]]) -> None:
        """Of a move that has ended nothing is noted."""
        while (text := self._tables.get(_page(move_id, number))) is not None:
            noted = MovePage.from_json(text).with_outcomes(found).to_json()
            if noted == text or self._tables.compare_and_set(_page(move_id, number), text, noted):
                return

    def tally(self, move: Move) -> Tally:
        if move.ended_at is not None:
            return Tally(move.moved, move.failed, move.unchanged, 0, move.reasons)
        tally = Tally(unchanged=move.skipped)
        for _, text in every(self._tables, f"{PAGES}{move.id}/"):
            tally = tally.plus(MovePage.from_json(text).tally)
        return tally


def _page(move_id: str, number: int) -> str:
    return f"{PAGES}{move_id}/{number:09}"
