"""The guard against clocks that jump: the newest time that passes have seen, and who shows another one.

The conductor of each machine shows its clock again and again, also between passes. While a clock is not believed, its
machine begins no pass; the clocks of other machines are theirs.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable

from tidegate.core.lifecycle.clock_check import why_not_believed
from tidegate.core.lifecycle.due import SECOND_NS
from tidegate.ports import Tables
from tidegate.settings import LifecycleSettings
from tidegate.table_pages import every

SEEN = "lifecycle/clock"
_PROBLEMS = "lifecycle/clock-problems/"
_NOTE_SECONDS = 60.0
_RENEWAL_SECONDS = 10.0
HINT = "if it is right, say so with: tidegate lifecycle confirm-clock"

logger = logging.getLogger(__name__)


class ClockGuard:
    """For one thread."""

    def __init__(
        self, tables: Tables, settings: LifecycleSettings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._tables = tables
        self._limit_hours = settings.clock_jump_hours
        self._monotonic = monotonic
        self._entry = _PROBLEMS + socket.gethostname()
        self._told_at: float | None = None

    def problem(self, now_ns: int) -> str:
        """Why no pass may go by this time; empty when it may."""
        return self._problem(now_ns, self.seen_ns())

    def _problem(self, now_ns: int, seen_ns: int | None) -> str:
        found = why_not_believed(now_ns, seen_ns, limit_hours=self._limit_hours)
        return f"{found}; {HINT}" if found else ""

    def observe(self, now_ns: int) -> str:
        """As `problem`, and notes down the time, or for all to see that it is not believed."""
        seen_ns = self.seen_ns()
        found = self._problem(now_ns, seen_ns)
        if found:
            self._tell(found)
            return found
        if self._told_at is not None:
            self._told_at = None
            self._tables.delete(self._entry)
            logger.warning("lifecycle: the clock is believed again, and passes go on")
        if seen_ns is None or now_ns >= seen_ns + _NOTE_SECONDS * SECOND_NS:
            # Of two conductors either may be first; the later time is noted by the next look at the latest.
            self._tables.compare_and_set(SEEN, None if seen_ns is None else str(seen_ns), str(now_ns))
        return ""

    def confirm(self, now_ns: int) -> None:
        """An operator says that this is the time."""
        self._tables.put(SEEN, str(now_ns))

    def seen_ns(self) -> int | None:
        text = self._tables.get(SEEN)
        return int(text) if text is not None else None

    def _tell(self, problem: str) -> None:
        now = self._monotonic()
        if self._told_at is None:
            logger.error("lifecycle: no pass begins: %s", problem)
        if self._told_at is None or now >= self._told_at + _RENEWAL_SECONDS:
            self._told_at = now
            self._tables.put(self._entry, problem, expires_in=3 * _RENEWAL_SECONDS)


def clock_problems(tables: Tables) -> dict[str, str]:
    """By machine, why its clock is not believed; empty when all are."""
    return {key.removeprefix(_PROBLEMS): problem for key, problem in every(tables, _PROBLEMS)}
