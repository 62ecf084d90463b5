"""The audit trail: what lifecycle did, one record per finished task, in a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, AuditRecord
from tidegate.ports import Record, Topics

_PAGE = 1000

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
        for partition, (first, following) in enumerate(self._topics.bounds(AUDIT_TOPIC)):
            offset = max(first, ends[partition])
            while offset < following:
                page = self._topics.read(AUDIT_TOPIC, partition, offset, min(_PAGE, following - offset))
                if not page:
                    break
                yield from (AuditRecord.from_json(message.value) for message in page)
                offset = page[-1].offset + 1

    def newest(self, count: int, wanted: Wanted) -> list[AuditRecord]:
        """The newest records that are wanted, the oldest of them first."""
        found = [
            record
            for partition, (first, following) in enumerate(self._topics.bounds(AUDIT_TOPIC))
            for record in self._newest_in(partition, first, following, count, wanted)
        ]
        found.sort(key=lambda record: record.at_ns)
        return found[-count:] if count else []

    def _newest_in(self, partition: int, first: int, following: int, count: int, wanted: Wanted) -> list[AuditRecord]:
        found: list[AuditRecord] = []
        while following > first and len(found) < count:
            offset = max(first, following - _PAGE)
            page = self._topics.read(AUDIT_TOPIC, partition, offset, following - offset)
            records = (AuditRecord.from_json(message.value) for message in page)
            found = [record for record in records if wanted(record)] + found
            following = offset
        return found
