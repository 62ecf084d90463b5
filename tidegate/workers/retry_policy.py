"""How often a message is tried, and how long it waits in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The first retry comes after the first of the `delays`, and so on; the last one stands for all that follow.
    `tries` counts the first one, too. A delay is lengthened by up to the part `jitter` of it, so that what failed
    together does not come again together."""

    delays: tuple[float, ...] = (5.0, 15.0)
    tries: int = 3
    jitter: float = 0.0

    def may_retry(self, attempt: int) -> bool:
        """Whether there is another try after that one."""
        return attempt < self.tries

    @property
    def longest_seconds(self) -> float:
        """All waits of a message together, at most."""
        last = self.delays[-1:] * max(self.tries - 1 - len(self.delays), 0)
        return sum((*self.delays[: self.tries - 1], *last)) * (1 + self.jitter)

    def delay(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds to wait after that try; `random` gives numbers from 0 to 1."""
        if not self.delays:
            return 0.0
        return self.delays[min(attempt, len(self.delays)) - 1] * (1 + self.jitter * random())
