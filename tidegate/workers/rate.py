"""How fast workers may act: one rate for the whole installation, shared out among the processes that act."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

from tidegate.ports import Tables

_LIFE_SECONDS = 30.0
_RENEWAL_SECONDS = 10.0


class Members:
    """The processes that act, each with an entry under the `prefix` that expires unless it is renewed."""

    def __init__(self, tables: Tables, prefix: str) -> None:
        self._tables = tables
        self._prefix = prefix
        self.name = f"{socket.gethostname()}:{os.getpid()}"

    def renew(self) -> int:
        """How many there are, this one included."""
        self._tables.put(self._prefix + self.name, "null", expires_in=_LIFE_SECONDS)
        return max(len(self.names()), 1)

    def leave(self) -> None:
        self._tables.delete(self._prefix + self.name)

    def names(self) -> list[str]:
        return [key.removeprefix(self._prefix) for key, _ in self._tables.scan(self._prefix)]

    def others_work(self) -> bool:
        """Whether processes of other machines are among them."""
        machine = self.name.rpartition(":")[0]
        return any(name.rpartition(":")[0] != machine for name in self.names())


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


class InstallationRate:
    """This process's part of a rate. Its threads share one; each counts as a member for as long as it asks."""

    def __init__(self, tables: Tables, prefix: str, per_second: float = 0.0, burst: int = 0) -> None:
        self._members = Members(tables, prefix)
        self._limit = RateLimit(per_second, burst)
        self._lock = threading.Lock()
        self._renewed_at = float("-inf")

    @property
    def member(self) -> str:
        """The name of this process."""
        return self._members.name

    def portion(self, seconds: float, most: int) -> int:
        """As `RateLimit` has it; called before each batch, it also keeps the membership."""
        with self._lock:
            if time.monotonic() >= self._renewed_at + _RENEWAL_SECONDS:
                self._limit.share(self._members.renew())
                self._renewed_at = time.monotonic()
        return self._limit.portion(seconds, most)

    def take(self, count: int) -> float:
        return self._limit.take(count)

    def leave(self) -> None:
        self._members.leave()
        self._renewed_at = float("-inf")
