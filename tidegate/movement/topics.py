"""The topics of deletion, and the group that consumes them."""

from __future__ import annotations

from tidegate.core.deletion_records import DELETION_AUDIT_TOPIC
from tidegate.movement.deletion_audit import PARTITIONS
from tidegate.ports import Topics
from tidegate.settings import DeletionSettings

DELETION_GROUP = "deletion"


def create_deletion_topics(topics: Topics, settings: DeletionSettings) -> None:
    topics.create(settings.topic, settings.partitions)
    topics.create(DELETION_AUDIT_TOPIC, PARTITIONS)


def trim_carried_out(topics: Topics, topic: str) -> int:
    """Clears away the pending deletes that are finished, and says how many. What waits for a retry is kept apart."""
    reached = topics.progress(topic, DELETION_GROUP).reached
    trimmed = 0
    for partition, ((first, _), end) in enumerate(zip(topics.bounds(topic), reached, strict=True)):
        if end > first:
            topics.trim(topic, partition, end)
            trimmed += end - first
    return trimmed
