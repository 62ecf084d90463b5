"""How much one process asks of a location: transfers at a time, and bytes per second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegate.core.errors import Unavailable
from tidegate.workers.rate import RateLimit

# Longer than a large part takes. Two locations whose data goes to each other could otherwise wait for ever.
_WAIT_SECONDS = 300.0
# Short enough that no server takes a slow sender for a dead one.
_PORTION_SECONDS = 0.25


class TransferLimits:
    """`bytes_per_second` 0 sets no limit to them. May be shared by threads. What a thread does within a transfer of its
    own counts as part of it."""

    def __init__(
        self,
        name: str,
        concurrency: int,
        bytes_per_second: int,
        *,
        wait_seconds: float = _WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = name
        self._concurrency = concurrency
        self._slots = threading.BoundedSemaphore(concurrency)
        self._rate = RateLimit(bytes_per_second, clock=clock)
        self._wait_seconds = wait_seconds
        self._sleep = sleep
        self._thread = threading.local()

    @contextmanager
    def transfer(self) -> Iterator[None]:
        if getattr(self._thread, "is_transferring", False):
            yield
            return
        if not self._slots.acquire(timeout=self._wait_seconds):
            raise Unavailable(
                f"location {self._name} is busy: {self._concurrency} transfers (its concurrency) took more than "
                f"{self._wait_seconds:g} seconds"
            )
        self._thread.is_transferring = True
        try:
            yield
        finally:
            self._thread.is_transferring = False
            self._slots.release()

    def portion(self, most: int) -> int:
        return self._rate.portion(_PORTION_SECONDS, most)

    def moved(self, count: int) -> None:
        if wait := self._rate.take(count):
            self._sleep(wait)
