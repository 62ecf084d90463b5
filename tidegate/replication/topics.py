"""The topics of replication, the groups that consume them, and how records get into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.core.replication.messages import (
    FAILED_GROUP,
    FAILED_TOPIC,
    REPLICATION_AUDIT_TOPIC,
    REPLICATION_TOPIC,
    REPLICATOR_GROUP,
    STATUS_GROUP,
    STATUS_TOPIC,
    ReplicationTask,
    StatusMessage,
    record_key,
)
from tidegate.ports import Record, Topics

PARTITIONS = 4


def create_replication_topics(topics: Topics) -> None:
    for name in (REPLICATION_TOPIC, STATUS_TOPIC, FAILED_TOPIC, REPLICATION_AUDIT_TOPIC):
        topics.create(name, PARTITIONS)


def replicator_group(site: str) -> str:
    return REPLICATOR_GROUP + site


def send(topics: Topics, topic: str, messages: Iterable[ReplicationTask | StatusMessage]) -> None:
    """They are on stable storage when this returns. Messages of one key keep their order."""
    records = [record_of(message) for message in messages]
    if records:
        topics.append(topic, records)


def record_of(message: ReplicationTask | StatusMessage) -> Record:
    return Record(record_key(message.bucket_uid, message.key), message.to_bytes())


def trim_finished(topics: Topics, sites: Sequence[str]) -> int:
    """Clears away what all who read it have finished, and says how much. What waits for a retry is kept apart. A site
    that has no location at the moment has finished nothing since."""
    groups = {
        REPLICATION_TOPIC: [replicator_group(site) for site in sites],
        STATUS_TOPIC: [STATUS_GROUP],
        FAILED_TOPIC: [FAILED_GROUP],
    }
    return sum(_trim(topics, topic, readers) for topic, readers in groups.items() if readers)


def _trim(topics: Topics, topic: str, groups: Sequence[str]) -> int:
    reached = [topics.progress(topic, group).reached for group in groups]
    trimmed = 0
    for partition, (first, _) in enumerate(topics.bounds(topic)):
        end = min(each[partition] for each in reached)
        if end > first:
            topics.trim(topic, partition, end)
            trimmed += end - first
    return trimmed
