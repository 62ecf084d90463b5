"""How many messages to take at once: a consumer must not be silent for longer than its lease."""

from __future__ import annotations

_SECONDS = 1.5
_PART_OF_LEASE = 0.25


class BatchSize:
    """As many as can be done in good time, going by how long the last ones took: from `least`, so that a request can be
    filled, to `most`, so that little memory is taken. For one thread."""

    def __init__(self, first: int, *, least: int, most: int, lease_seconds: float) -> None:
        self._least = least
        self._most = most
        self.seconds = min(_SECONDS, _PART_OF_LEASE * lease_seconds)
        self.current = first

    def observe(self, messages: int, seconds: float) -> None:
        self.current = min(max(int(messages / max(seconds, 0.001) * self.seconds), self._least), self._most)
