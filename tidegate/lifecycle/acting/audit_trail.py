"""The audit trail: what lifecycle did, one record per finished task, in a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, AuditRecord
from tidegate.ports import Record, Topics
from tidegate.topic_pages import appended_since, newest

Wanted = Callable[[AuditRecord], bool]


class AuditTrail:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def append(self, records: Sequence[AuditRecord]) -> None:
        """Records of one key keep their order."""
        self._topics.append(
            AUDIT_TOPIC,
            [Record(f"{record.task.bucket_uid}/{record.task.key}", record.to_json().encode()) for record in records],
        )

    def ends(self) -> list[int]:
        return [following for _, following in self._topics.bounds(AUDIT_TOPIC)]

    def since(self, ends: Sequence[int]) -> Iterator[AuditRecord]:
        """What was appended after the trail had those ends."""
        for message in appended_since(self._topics, AUDIT_TOPIC, ends):
            yield AuditRecord.from_json(message.value)

    def newest(self, count: int, wanted: Wanted) -> list[AuditRecord]:
        """The newest records that are wanted, the oldest of them first."""
        return newest(
            self._topics,
            AUDIT_TOPIC,
            self._topics.bounds(AUDIT_TOPIC),
            count,
            read=AuditRecord.from_json,
            wanted=wanted,
            moment_ns=lambda record: record.at_ns,
        )
