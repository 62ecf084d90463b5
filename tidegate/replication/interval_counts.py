"""Counts what arrived and what failed in intervals of five minutes, and forgets those that are too old."""

from __future__ import annotations

from tidegate.core.replication.counts import INTERVALS, KEPT_INTERVALS, IntervalCount, IntervalKey, interval_of
from tidegate.core.replication.records import Status
from tidegate.ports import Tables
from tidegate.table_pages import every


class IntervalCounts:
    """Of one status processor. What is added is written with the rest of its batch. For one thread."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._added: dict[tuple[str, int], IntervalCount] = {}
        self._cleared = -1

    def add(self, site: str, partition: int, status: Status, size: int) -> None:
        counts = {Status.COMPLETED: IntervalCount(1, size), Status.FAILED: IntervalCount(0, 0, 1, size)}
        if status in counts:
            key = (site, partition)
            self._added[key] = self._added.get(key, IntervalCount()).plus(counts[status])

    def entries(self, now: float) -> dict[str, str | None]:
        """What is to be written, and what is to be removed."""
        number = interval_of(now)
        found: dict[str, str | None] = self._too_old(number) if number != self._cleared and self._added else {}
        for (site, partition), count in self._added.items():
            key = IntervalKey(site, number, partition).entry
            text = self._tables.get(key)
            known = IntervalCount.from_json(text) if text is not None else IntervalCount()
            found[key] = known.plus(count).to_json()
        self._cleared = number if self._added else self._cleared
        return found

    def begin(self) -> None:
        """A batch: what was added to an earlier one that could not be written comes again."""
        self._added.clear()

    def _too_old(self, number: int) -> dict[str, str | None]:
        return {
            entry: None
            for entry, _ in every(self._tables, INTERVALS)
            if IntervalKey.of_entry(entry).number <= number - KEPT_INTERVALS
        }
