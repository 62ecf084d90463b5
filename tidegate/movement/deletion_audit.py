"""The deletion audit: one record for everything that was deleted, or was to be, in a topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.core.deletion_records import DELETION_AUDIT_TOPIC, DeletionRecord
from tidegate.ports import Record, Topics
from tidegate.topic_pages import newest

PARTITIONS = 4


class DeletionAudit:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def append(self, records: Sequence[DeletionRecord]) -> None:
        """Records of one key keep their order."""
        if records:
            self._topics.append(
                DELETION_AUDIT_TOPIC,
                [Record(f"{record.bucket_uid}/{record.key}", record.to_json().encode()) for record in records],
            )

    def newest(self, count: int, wanted: Callable[[DeletionRecord], bool]) -> list[DeletionRecord]:
        """The newest records that are wanted, the oldest of them first."""
        return newest(
            self._topics,
            DELETION_AUDIT_TOPIC,
            self._topics.bounds(DELETION_AUDIT_TOPIC),
            count,
            read=DeletionRecord.from_json,
            wanted=wanted,
            moment_ns=lambda record: record.at_ns,
        )
