"""How fast lifecycle may delete: one rate for the whole installation, shared out among the processes that act."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

from tidegate.pools.catalogue import every
from tidegate.ports import Tables

_WORKERS = "lifecycle/workers/"
_LIFE_SECONDS = 30.0


class Workers:
    """The processes that act, each with an entry that expires unless it is renewed."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.name = f"{socket.gethostname()}:{os.getpid()}"

    def renew(self) -> int:
        """How many there are, this one included."""
        self._tables.put(_WORKERS + self.name, "null", expires_in=_LIFE_SECONDS)
        return max(sum(1 for _ in every(self._tables, _WORKERS)), 1)

    def leave(self) -> None:
        self._tables.delete(_WORKERS + self.name)


def other_machines_work(tables: Tables, machine: str) -> bool:
    """Whether processes that act are registered on machines other than this one."""
    names = [key.removeprefix(_WORKERS) for key, _ in every(tables, _WORKERS)]
    return any(name.rpartition(":")[0] != machine for name in names)


class RateLimit:
    """A token bucket. `per_second` 0 sets no limit. May be shared by threads."""

    def __init__(self, per_second: float, burst: int = 0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._installation = (per_second, float(burst) or 2 * per_second)
        self._clock = clock
        self._lock = threading.Lock()
        self._per_second, self._burst = self._installation
        self._tokens = self._burst
        self._filled_at = clock()

    def share(self, workers: int) -> None:
        """Takes one of so many equal parts."""
        with self._lock:
            self._fill()
            self._per_second, self._burst = (whole / workers for whole in self._installation)
            self._tokens = min(self._tokens, self._burst)

    def portion(self, seconds: float, most: int) -> int:
        """How many actions can be begun at once so that the last waits about so long; at least one."""
        with self._lock:
            return max(min(int(self._per_second * seconds), most), 1) if self._per_second else most

    def take(self, count: int) -> float:
        """Uses up tokens, and says how many seconds to wait before acting."""
        with self._lock:
            if not self._per_second:
                return 0.0
            self._fill()
            self._tokens -= count
            return max(-self._tokens / self._per_second, 0.0)

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._tokens + (now - self._filled_at) * self._per_second, max(self._burst, 1.0))
        self._filled_at = now
