"""`Topics` on a Kafka cluster, for more than one machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.adapters import kafka_messages, limits
from tidegate.adapters.kafka_client import Cluster, client_settings
from tidegate.adapters.kafka_consumer import KafkaConsumer
from tidegate.adapters.kafka_messages import Names
from tidegate.adapters.kafka_producer import Outgoing, StoringProducer
from tidegate.adapters.kafka_progress import read_note
from tidegate.adapters.kafka_reader import PartitionReader
from tidegate.core.errors import NotFound, Unavailable
from tidegate.ports import Consumer, GroupProgress, Message, Record


class KafkaTopics:
    def __init__(
        self,
        servers: str,
        *,
        prefix: str = "",
        replication: int = 1,
        lease_seconds: float = 10.0,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = client_settings(servers, options or {})
        self._names = Names(prefix)
        self._lease_seconds = lease_seconds
        self._cluster = Cluster(self._settings, replication)
        self._producer = StoringProducer(self._settings)
        self._reader = PartitionReader(self._settings, self._cluster)

    def create(self, topic: str, partitions: int) -> None:
        limits.topic_name(topic)
        limits.partition_count(partitions)
        self._cluster.create(self._names.topic(topic), partitions)

    def names(self) -> list[str]:
        visible = map(self._names.visible, self._cluster.topics())
        return sorted(name for name in visible if name)

    def append(self, topic: str, records: Sequence[Record]) -> None:
        keys = limits.message_keys(records)
        kafka_topic = self._find(topic)
        if records:
            batch = [Outgoing(key, record.value, record.partition) for key, record in zip(keys, records, strict=True)]
            self._producer.send(kafka_topic, batch)

    def probe(self, topic: str) -> None:
        leaderless = self._cluster.leaderless(self._find(topic))
        if leaderless:
            raise Unavailable(f"partitions of {topic!r} have no leader: {', '.join(map(str, leaderless))}")

    def consumer(self, topic: str, group: str) -> Consumer:
        limits.group_name(group)
        self._find(topic)
        return KafkaConsumer(
            self._settings, self._cluster, self._producer, self._names, topic, group, self._lease_seconds
        )

    def lag(self, topic: str, group: str) -> int:
        limits.group_name(group)
        kafka_topic = self._find(topic)
        kafka_group = self._names.group(topic, group)
        return self._unfinished(kafka_topic, kafka_group) + self._unfinished(
            self._names.retry(topic, group), kafka_group
        )

    def progress(self, topic: str, group: str) -> GroupProgress:
        limits.group_name(group)
        kafka_topic = self._find(topic)
        kafka_group = self._names.group(topic, group)
        committed = self._cluster.committed(kafka_group, kafka_topic)
        bounds = self._cluster.bounds(kafka_topic)
        reached = tuple(max(first, offset) for (first, _), (offset, _) in zip(bounds, committed, strict=True))
        return GroupProgress(reached, self._unfinished(self._names.retry(topic, group), kafka_group))

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Message]:
        limits.scan_limit(limit)
        kafka_topic = self._find_partition(topic, partition)
        found = self._reader.read(kafka_topic, partition, offset, limit)
        return [kafka_messages.first_delivery(topic, message) for message in found]

    def bounds(self, topic: str) -> list[tuple[int, int]]:
        return self._cluster.bounds(self._find(topic))

    def trim(self, topic: str, partition: int, before: int) -> None:
        kafka_topic = self._find_partition(topic, partition)
        [(first, end)] = self._cluster.bounds(kafka_topic, [partition])
        if before > first:
            self._cluster.delete_before(kafka_topic, partition, min(before, end))

    def close(self) -> None:
        self._producer.close()
        self._reader.close()

    def _unfinished(self, kafka_topic: str, kafka_group: str) -> int:
        """Messages from the committed offsets on, less those noted as finished beyond; 0 without the topic."""
        if not self._cluster.partitions(kafka_topic):
            return 0
        committed = self._cluster.committed(kafka_group, kafka_topic)
        unfinished = 0
        for (first, end), (offset, note) in zip(self._cluster.bounds(kafka_topic), committed, strict=True):
            start = max(first, offset)
            done = sum(start <= finished for finished in read_note(offset, note))
            unfinished += max(0, end - start - done)
        return unfinished

    def _find(self, topic: str) -> str:
        kafka_topic = self._names.topic(limits.topic_name(topic))
        if not self._cluster.partitions(kafka_topic):
            raise NotFound(f"there is no topic {topic!r}")
        return kafka_topic

    def _find_partition(self, topic: str, partition: int) -> str:
        kafka_topic = self._find(topic)
        if not 0 <= partition < self._cluster.partitions(kafka_topic):
            raise NotFound(f"the topic {topic!r} has no partition {partition}")
        return kafka_topic
