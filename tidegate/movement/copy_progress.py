"""The records of copies under way, kept in the tables so that a copy that was broken off is found again.

A record and the entry that leads to it from the task are written and removed in one step: a record that is found from
no task would be a reference that nobody takes back.
"""

from __future__ import annotations

import logging
import time

from tidegate.core.copies import COPIES, OF_TASK, Copy, entry_of
from tidegate.core.errors import Unavailable
from tidegate.movement.pending_deletes import BelievedData, FirstPhase
from tidegate.ports import Tables, Topics
from tidegate.table_pages import every

# Longer than any task is under way, its retries included.
_ABANDONED_SECONDS = 8 * 86_400.0

logger = logging.getLogger(__name__)


class CopyProgress:
    """`deletion_topic` gets the data of copies that nobody wants. `believed` is shared with the second phase of
    deletion, where that runs in this process. May be shared by threads."""

    def __init__(
        self, tables: Tables, topics: Topics, *, deletion_topic: str, believed: BelievedData | None = None
    ) -> None:
        self._tables = tables
        self._first_phase = FirstPhase(topics, deletion_topic, believed)

    def of_task(self, task_id: str) -> Copy | None:
        """The copy that the task has begun."""
        entry = self._tables.get(OF_TASK + task_id)
        text = self._tables.get(entry) if entry is not None else None
        return Copy.from_json(text) if text is not None else None

    def of_data(self, location: str, data_key: str) -> Copy | None:
        text = self._tables.get(entry_of(location, data_key))
        return Copy.from_json(text) if text is not None else None

    def begin(self, copy: Copy) -> None:
        """Call this before any data is written."""
        self._tables.change({OF_TASK + copy.task_id: copy.entry, copy.entry: copy.to_json()})

    def update(self, copy: Copy) -> None:
        self._tables.put(copy.entry, copy.to_json())

    def end(self, copy: Copy) -> None:
        """Another record refers to the data now, or none needs to."""
        self._tables.change({copy.entry: None, OF_TASK + copy.task_id: None})

    def release(self, copy: Copy, reason: str) -> None:
        """Has the data deleted, and then drops the reference to it. Raises `Unavailable` if that cannot be done now."""
        pending = copy.released(reason, now_ns=time.time_ns())
        if self._first_phase.drop([copy], [copy], lambda _: pending, lambda _: self.end(copy)):
            raise Unavailable(f"the copy of {copy.bucket}/{copy.key} was not sent to deletion")

    def release_abandoned(self, *, now: float) -> int:
        """Of tasks that came to nothing: their topic was trimmed, or an operator removed them. Says how many."""
        found = [Copy.from_json(text) for _, text in every(self._tables, COPIES)]
        abandoned = [copy for copy in found if copy.begun_at < now - _ABANDONED_SECONDS]
        for copy in abandoned:
            self.release(copy, "the copy was abandoned")
        if abandoned:
            logger.warning("%d copies were abandoned, such as that of %s", len(abandoned), abandoned[0].key)
        return len(abandoned)
