"""How long topics keep what is only looked back on: the audit trail, and records of the metadata log that are landed.

Whatever is in doubt is kept: records that no pass has taken into the log table, and those that the queue populator
may not have read.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from threading import Event as Flag

from tidegate.core.lifecycle.due import SECOND_NS, day_length_ns
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC
from tidegate.lifecycle.topics import POPULATOR_GROUP
from tidegate.pipeline import manifest
from tidegate.ports import Topics
from tidegate.settings import Settings

_ROUND_SECONDS = 600.0

logger = logging.getLogger(__name__)


class Retention:
    """`data` is the data directory, where the log table lies."""

    def __init__(self, topics: Topics, settings: Settings, data: Path) -> None:
        self._topics = topics
        self._log_topic = settings.metalog.topic
        self._manifest_file = data / manifest.DIRECTORY / manifest.FILE
        day_seconds = day_length_ns(settings.lifecycle.day_seconds) / SECOND_NS
        self._audit_seconds = settings.lifecycle.audit_retention_days * day_seconds
        self._log_seconds = settings.lifecycle.metalog_retention_days * day_seconds

    def run_forever(self, stop: Flag) -> None:
        while True:
            self.run_once(time.time())
            if stop.wait(_ROUND_SECONDS):
                return

    def run_once(self, now: float) -> None:
        if self._audit_seconds:
            self._trim_audit_trail(now - self._audit_seconds)
        if self._log_seconds:
            self._trim_log(now - self._log_seconds)

    def _trim_audit_trail(self, before: float) -> None:
        for partition, (first, following) in enumerate(self._topics.bounds(AUDIT_TOPIC)):
            self._trim(
                AUDIT_TOPIC, partition, first, self._first_since(AUDIT_TOPIC, partition, first, following, before)
            )

    def _trim_log(self, before: float) -> None:
        landed = manifest.load(self._manifest_file).next_offsets
        bounds = self._topics.bounds(self._log_topic)[: len(landed)]
        ends = [
            self._first_since(self._log_topic, partition, first, min(following, landed[partition]), before)
            for partition, (first, following) in enumerate(bounds)
        ]
        left = sum(following - end for (_, following), end in zip(bounds, ends, strict=True))
        if self._topics.lag(self._log_topic, POPULATOR_GROUP) > left:
            logger.warning("old records of the metadata log are kept: the queue populator has not read them yet")
            return
        for partition, ((first, _), end) in enumerate(zip(bounds, ends, strict=True)):
            self._trim(self._log_topic, partition, first, end)

    def _first_since(self, topic: str, partition: int, first: int, following: int, moment: float) -> int:
        """The first offset, up to `following`, of a record that was appended at the moment or later.

        Records come in the order of their times, but for what clocks differ: a search in halves finds the place.
        """
        low, high = first, max(first, following)
        while low < high:
            middle = (low + high) // 2
            found = self._topics.read(topic, partition, middle, 1)
            if found and found[0].offset < high and found[0].appended_at < moment:
                low = found[0].offset + 1
            else:
                high = middle
        return low

    def _trim(self, topic: str, partition: int, first: int, end: int) -> None:
        if end > first:
            self._topics.trim(topic, partition, end)
            logger.info("%d old records of %s, partition %d, are forgotten", end - first, topic, partition)
