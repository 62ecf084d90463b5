"""The gauges of replication, brought up to date when the metrics are asked for. What stands in the tables is counted
every ten seconds at most, since that reads all that has not arrived."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tidegate import metrics
from tidegate.core.replication.messages import POPULATOR_GROUP
from tidegate.ports import Tables, Topics
from tidegate.replication.queries import ReplicationQueries, SiteFigures

_FRESH_SECONDS = 10.0


class ReplicationGauges:
    """May be shared by threads."""

    def __init__(self, tables: Tables, topics: Topics, *, log_topic: str) -> None:
        self._tables = tables
        self._topics = topics
        self._log_topic = log_topic
        self._lock = threading.Lock()
        self._counted_at = float("-inf")
        self._figures: Mapping[str, SiteFigures] = {}

    def figures(self, *, now: float) -> Mapping[str, SiteFigures]:
        """By site, as they were at most ten seconds ago. `now` is a Unix time."""
        with self._lock:
            if not self._counted_at <= now < self._counted_at + _FRESH_SECONDS:
                queries = ReplicationQueries(self._tables)
                # A site that has nothing any more keeps its line, so that its gauges go back to nothing.
                gone: Mapping[str, SiteFigures] = {site: SiteFigures(site) for site in self._figures}
                self._figures = {**gone, **{site: queries.figures(site) for site in queries.sites()}}
                self._counted_at = now
            return self._figures

    def measure(self, *, now: float) -> None:
        ruled = set(ReplicationQueries(self._tables).sites_of_rules())
        unread_since = self._unread_since() if ruled else None
        for site, figures in self.figures(now=now).items():
            since = (figures.oldest_pending_at, unread_since if site in ruled else None)
            oldest = min((moment for moment in since if moment is not None), default=None)
            metrics.REPLICATION_PENDING.labels(site).set(figures.pending.count)
            metrics.REPLICATION_FAILED.labels(site).set(figures.failed.count)
            metrics.REPLICATION_OLDEST.labels(site).set(0 if oldest is None else max(0.0, now - oldest))

    def _unread_since(self) -> float | None:
        """The time of the oldest record of the metadata log that the populator has not read: nobody knows yet whether
        it tells of a version that is to be replicated."""
        if self._log_topic not in self._topics.names():
            return None
        reached = self._topics.progress(self._log_topic, POPULATOR_GROUP).reached
        pages = (self._topics.read(self._log_topic, partition, offset, 1) for partition, offset in enumerate(reached))
        return min((page[0].appended_at for page in pages if page), default=None)
