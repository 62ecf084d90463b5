"""The gauge of how far a consumer group is behind its topic, brought up to date now and then."""

from __future__ import annotations

import time

from tidegate import metrics
from tidegate.ports import Topics

_FRESH_SECONDS = 10.0


class LagGauge:
    """For one thread."""

    def __init__(self, topics: Topics, topic: str, group: str) -> None:
        self._topics = topics
        self._topic = topic
        self._group = group
        self._shown_at = float("-inf")

    def show(self) -> None:
        """Asks for the lag unless it did so a moment ago."""
        if time.monotonic() >= self._shown_at + _FRESH_SECONDS:
            metrics.TOPIC_LAG.labels(self._topic, self._group).set(self._topics.lag(self._topic, self._group))
            self._shown_at = time.monotonic()
