"""How long topics keep their records: the metadata log, the audits, tasks, pending deletes and dead letters.

Pending deletes go when they are finished, and never before.

A record of the metadata log goes when it is old enough and everybody who reads the log has it. Readers that do not come
forward cannot keep it for ever: beyond a limit it goes all the same, which is logged as an error. The queue populator
then starts from the tables, and the landing finds that the topic begins later, and moves the log's horizon.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from tidegate.core.copy_tasks import DATA_MOVER_TOPIC
from tidegate.core.deletion_records import DELETION_AUDIT_TOPIC
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, OBJECT_TASKS_TOPIC
from tidegate.core.replication.messages import POPULATOR_GROUP as REPLICATION_GROUP
from tidegate.core.replication.messages import REPLICATION_AUDIT_TOPIC
from tidegate.core.replication.rules import REPLICATION
from tidegate.dead_letters import SUFFIX as DEAD_LETTERS
from tidegate.lifecycle.buckets import bucket_list
from tidegate.lifecycle.topics import POPULATOR_GROUP, trim_finished
from tidegate.movement.mover_topics import MOVEMENT_RESULTS_TOPIC
from tidegate.movement.topics import trim_carried_out
from tidegate.pipeline.log import manifest
from tidegate.ports import Tables, Topics
from tidegate.settings import Settings

_DAY_SECONDS = 86_400.0
_LONGEST_ROUND_SECONDS = 600.0
_SHORTEST_ROUND_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Retention:
    """`data` is the data directory, where the log table lies."""

    def __init__(self, tables: Tables, topics: Topics, settings: Settings, data: Path) -> None:
        self._tables = tables
        self._topics = topics
        self._settings = settings
        self._log_topic = settings.metalog.topic
        self._manifest_file = data / manifest.DIRECTORY / manifest.FILE
        # Real days, also in trials with short ones: a pass that runs counts what it did by its audit records.
        self._audit_seconds = settings.lifecycle.audit_retention_days * _DAY_SECONDS
        self._log_seconds = settings.metalog.keep_days * _DAY_SECONDS
        self._log_limit_seconds = settings.metalog.limit_days * _DAY_SECONDS
        self._task_seconds = settings.topics.task_days * _DAY_SECONDS
        self._letter_seconds = settings.topics.dead_letter_days * _DAY_SECONDS

    @property
    def round_seconds(self) -> float:
        """Often enough that nothing stays for much longer than it should."""
        times = (self._audit_seconds, self._log_seconds, self._task_seconds, self._letter_seconds)
        shortest = min((seconds for seconds in times if seconds), default=_DAY_SECONDS)
        return min(max(shortest / 10, _SHORTEST_ROUND_SECONDS), _LONGEST_ROUND_SECONDS)

    def run_once(self, now: float) -> None:
        names = set(self._topics.names())
        if self._log_topic in names:
            self._trim_log(now)
        for name in sorted(names & {AUDIT_TOPIC, DELETION_AUDIT_TOPIC, REPLICATION_AUDIT_TOPIC}):
            if self._audit_seconds:
                self._trim_by_age(name, now - self._audit_seconds)
        if self._settings.deletion.topic in names:
            trim_carried_out(self._topics, self._settings.deletion.topic)
        for name in sorted(names):
            if name.endswith(DEAD_LETTERS):
                self._trim_by_age(name, now - self._letter_seconds)
        for name in sorted({DATA_MOVER_TOPIC, MOVEMENT_RESULTS_TOPIC} & names):
            self._trim_by_age(name, now - self._task_seconds)
        are_left = OBJECT_TASKS_TOPIC in names and not trim_finished(self._topics)
        if are_left and self._trim_by_age(OBJECT_TASKS_TOPIC, now - self._task_seconds):
            logger.error(
                "tasks of %s that nobody finished in %g days are dropped; the next pass plans them again",
                OBJECT_TASKS_TOPIC, self._settings.topics.task_days,
            )  # fmt: skip

    # --- the metadata log ------------------------------------------------------------------------

    def _trim_log(self, now: float) -> None:
        bounds = self._topics.bounds(self._log_topic)
        firsts = [first for first, _ in bounds]
        old = self._ends(self._log_topic, bounds, now - self._log_seconds)
        too_old = self._ends(self._log_topic, bounds, now - self._log_limit_seconds)
        read = [max(pair) for pair in zip(firsts, self._read_by_all(bounds, old), strict=True)]
        ends = [max(pair) for pair in zip(read, too_old, strict=True)]
        unread = sum(end - reached for end, reached in zip(ends, read, strict=True))
        if unread:
            logger.error(
                "%d records of the metadata log are older than metalog.limit_days (%g) and are forgotten, though not "
                "everybody has read them: are the populators at work, and do passes come to their end? Buckets are "
                "walked in place of what these records told; versions that were to be replicated are found by "
                "`tidegate replication backfill`",
                unread, self._settings.metalog.limit_days,
            )  # fmt: skip
        for partition, (first, end) in enumerate(zip(firsts, ends, strict=True)):
            self._trim(self._log_topic, partition, first, end)

    def _read_by_all(self, bounds: Sequence[tuple[int, int]], ends: Sequence[int]) -> list[int]:
        """How far up to these ends everybody has read the log. The populators read it where lifecycle is on, and
        where there is replication, and no pass lands it where no bucket has rules or where passes list the buckets."""
        lifecycle = self._settings.lifecycle
        left = sum(following - end for (_, following), end in zip(bounds, ends, strict=True))
        is_read = {POPULATOR_GROUP: lifecycle.enabled, REPLICATION_GROUP: self._is_replicated()}
        if any(self._topics.lag(self._log_topic, group) > left for group, is_on in is_read.items() if is_on):
            return [first for first, _ in bounds]
        if not lifecycle.enabled:
            return list(ends)
        landed = manifest.load(self._manifest_file).next_offsets
        is_landed = lifecycle.engine == "spark" and bool(self._tables.scan(bucket_list.PREFIX, limit=1))
        if not is_landed:
            return list(ends)
        reached = [*landed, *[0] * (len(ends) - len(landed))]
        return [min(pair) for pair in zip(ends, reached, strict=False)]

    def _is_replicated(self) -> bool:
        """Also while replication is switched off: what is to be replicated waits."""
        return self._settings.replication.enabled or bool(self._tables.scan(REPLICATION, limit=1))

    # --- any topic -------------------------------------------------------------------------------

    def _trim_by_age(self, topic: str, before: float) -> bool:
        """Whether anything was old enough."""
        bounds = self._topics.bounds(topic)
        ends = self._ends(topic, bounds, before)
        for partition, ((first, _), end) in enumerate(zip(bounds, ends, strict=True)):
            self._trim(topic, partition, first, end)
        return any(end > first for (first, _), end in zip(bounds, ends, strict=True))

    def _ends(self, topic: str, bounds: Sequence[tuple[int, int]], before: float) -> list[int]:
        """Per partition the first offset of a record that was appended at the moment or later."""
        return [
            self._first_since(topic, partition, first, following, before)
            for partition, (first, following) in enumerate(bounds)
        ]

    def _first_since(self, topic: str, partition: int, first: int, following: int, moment: float) -> int:
        """Records come in the order of their times, but for what clocks differ: a search in halves finds the place."""
        low, high = first, following
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
