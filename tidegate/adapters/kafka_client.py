"""What all Kafka clients of this package share: their settings, their errors and the cluster's topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from tidegate.core.errors import InvalidInput, NotFound, Unavailable

REQUEST_SECONDS = 20.0

_log = logging.getLogger(__name__)

_INVALID = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError._INVALID_ARG,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_CONFIG,
    KafkaError.POLICY_VIOLATION,
}
_PASSING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


def translated(error: KafkaError) -> Exception:
    """The error of ours that stands for one of Kafka's."""
    if error.code() in _UNKNOWN:
        return NotFound(f"the Kafka cluster has no such topic or partition: {error.str()}")
    if error.code() == KafkaError.INVALID_SESSION_TIMEOUT:
        return InvalidInput(
            "the Kafka broker refuses topics.lease_seconds; it must lie between the broker's"
            " group.min.session.timeout.ms and group.max.session.timeout.ms"
        )
    if error.code() in _INVALID:
        return InvalidInput(f"the Kafka cluster refuses this: {error.str()}")
    return Unavailable(f"the Kafka cluster did not carry out the request: {error.str()}")


@contextmanager
def translating() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise translated(error.args[0]) from error


def client_settings(servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The settings every client begins with; the operator's options go first."""
    return {
        "bootstrap.servers": servers,
        "client.id": "tidegate",
        "logger": logging.getLogger("tidegate.kafka"),
        "socket.keepalive.enable": True,
        "error_cb": _note_error,
        **options,
    }


def _note_error(error: KafkaError) -> None:
    _log.warning("Kafka: %s", error.str())


class Cluster:
    """Topics and offsets of a Kafka cluster, by Kafka's own names. May be shared by threads."""

    def __init__(self, settings: Mapping[str, Any], replication: int) -> None:
        with translating():
            self._admin = AdminClient(dict(settings))
        self._replication = replication
        self._partitions: dict[str, int] = {}

    def topics(self) -> dict[str, int]:
        """All topics with their number of partitions."""
        # Asking for one topic could make the broker create it, asking for all of them cannot.
        with translating():
            found = self._admin.list_topics(timeout=REQUEST_SECONDS).topics
        self._partitions = {name: len(topic.partitions) for name, topic in found.items() if topic.partitions}
        return dict(self._partitions)

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has; 0 if it does not exist."""
        return self._partitions.get(topic) or self.topics().get(topic, 0)

    def leaderless(self, topic: str) -> list[int]:
        """The partitions that nobody takes messages for at the moment."""
        with translating():
            found = self._admin.list_topics(timeout=REQUEST_SECONDS).topics[topic].partitions
        return sorted(number for number, partition in found.items() if partition.leader < 0)

    def create(self, topic: str, partitions: int) -> None:
        """Makes the topic where it does not exist, and returns when it can be used."""
        if self.partitions(topic):
            return
        new = NewTopic(topic, partitions, self._replication, config=self._topic_settings())
        try:
            _results(self._admin.create_topics([new], operation_timeout=REQUEST_SECONDS))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise translated(error.args[0]) from error
        deadline = time.monotonic() + REQUEST_SECONDS
        while not self.partitions(topic):
            if time.monotonic() > deadline:
                raise Unavailable(f"the Kafka cluster made the topic {topic!r} but does not show it")
            time.sleep(0.05)

    def _topic_settings(self) -> dict[str, str]:
        settings = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        if self._replication == 1:
            # Without a replica, only a sync makes "appended" mean "on stable storage".
            return {**settings, "flush.messages": "1"}
        return {**settings, "min.insync.replicas": str(self._replication // 2 + 1)}

    def bounds(self, topic: str, partitions: Sequence[int] | None = None) -> list[tuple[int, int]]:
        """The first offset held and the next to be given, of all partitions or of those named."""
        numbers = range(self.partitions(topic)) if partitions is None else partitions
        first = self._offsets(topic, numbers, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        end = self._offsets(topic, numbers, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return list(zip(first, end, strict=True))

    def _offsets(self, topic: str, numbers: Sequence[int], which: OffsetSpec) -> list[int]:
        if not numbers:
            return []
        asked = {TopicPartition(topic, number): which for number in numbers}
        answers = _patiently(lambda: self._admin.list_offsets(asked))
        found = {place.partition: answer.offset for place, answer in answers.items()}
        return [found[number] for number in numbers]

    def committed(self, group: str, topic: str) -> list[tuple[int, str]]:
        """Per partition the committed offset, or a negative number, and what was noted with it."""
        asked = [TopicPartition(topic, number) for number in range(self.partitions(topic))]
        answers = _patiently(
            lambda: self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, asked)])
        )
        found = {place.partition: place for place in answers[group].topic_partitions}
        return [(found[place.partition].offset, found[place.partition].metadata or "") for place in asked]

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        _patiently(lambda: self._admin.delete_records([TopicPartition(topic, partition, offset)]))


def _patiently(request: Callable[[], dict[Any, Future[Any]]]) -> dict[Any, Any]:
    """The answers to a request that may be repeated, as it must be while a leader is being elected."""
    deadline = time.monotonic() + REQUEST_SECONDS
    while True:
        try:
            return _results(request())
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise translated(error.args[0]) from error
            time.sleep(0.1)


def _results(futures: dict[Any, Future[Any]]) -> dict[Any, Any]:
    try:
        return {asked: future.result(REQUEST_SECONDS) for asked, future in futures.items()}
    except TimeoutError:
        raise Unavailable(f"the Kafka cluster did not answer within {REQUEST_SECONDS:.0f} s") from None
