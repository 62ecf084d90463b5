"""A member of a consumer group on Kafka.

The group reads two topics: the one it was asked for, and its own retry topic, whose messages carry in
their headers when they are due and where they come from. A retry that is not due waits in memory while
the messages behind it are delivered; its offset is not committed, so that it comes back to whoever
follows if this process dies.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from tidegate.adapters import dead_letters, kafka_messages, limits
from tidegate.adapters.kafka_client import REQUEST_SECONDS, Cluster, translated, translating
from tidegate.adapters.kafka_holdings import Holdings
from tidegate.adapters.kafka_messages import Names
from tidegate.adapters.kafka_producer import Outgoing, StoringProducer
from tidegate.adapters.kafka_progress import Delivery, PartitionId, read_note
from tidegate.core.errors import TidegateError, Unavailable
from tidegate.ports import Message

MAX_WAITING_BYTES = 64 * 1024 * 1024
TRIM_RETRIES_EVERY = 1000
LONGEST_SILENCE_SECONDS = 300.0

_LOST_MEMBERSHIP = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._STATE,
}
_PASSING = {KafkaError._MAX_POLL_EXCEEDED, KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART}

_log = logging.getLogger(__name__)


class KafkaConsumer:
    def __init__(
        self,
        settings: Mapping[str, Any],
        cluster: Cluster,
        producer: StoringProducer,
        names: Names,
        topic: str,
        group: str,
        lease_seconds: float,
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._names = names
        self._topic = topic
        self._group = group
        self._main = names.topic(topic)
        self._retry = names.retry(topic, group)
        self._gained: list[TopicPartition] = []
        self._holdings = Holdings()
        self._trimmed: dict[int, int] = {}
        self._arrived: deque[KafkaMessage] = deque()
        self._retries_paused = False
        self._is_quiet = False
        self._closed = False
        cluster.create(self._retry, cluster.partitions(self._main))
        with translating():
            self._client = Consumer(_member_settings(settings, names.group(topic, group), lease_seconds))
            self._client.subscribe(
                [self._main, self._retry], on_assign=self._gain, on_revoke=self._give_up, on_lost=self._lose
            )

    def poll(self, limit: int = 100, timeout: float = 1.0) -> list[Message]:
        limits.scan_limit(limit)
        self._refuse_if_closed()
        deadline = time.monotonic() + timeout
        wait = 0.0
        self._end_quiet()
        while True:
            # Even with enough at hand the library wants to be polled: it answers for our membership.
            self._fetch(max(1, limit - self._holdings.ready_count), wait)
            batch = self._holdings.take(limit, time.time())
            remaining = deadline - time.monotonic()
            if batch or remaining <= 0:
                return batch
            wait = min(remaining, self._seconds_to_next_retry())

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self._refuse_if_closed()
        for message in messages:
            if self._is_in_flight(message):
                self._holdings.finish(message)
        self._commit(self._holdings.places)

    def retry_later(self, message: Message, *, not_before: float) -> None:
        self._refuse_if_closed()
        if self._is_in_flight(message):
            # Stored first and finished afterwards: dying in between repeats it, and loses nothing.
            partition = message.partition % self._cluster.partitions(self._retry)
            self._producer.send(self._retry, [kafka_messages.retry(message, not_before, partition)])
            self._holdings.finish(message)
            self._commit(self._holdings.places)

    def dead_letter(self, message: Message, reason: str) -> None:
        self._refuse_if_closed()
        if self._is_in_flight(message):
            letters = self._names.topic(dead_letters.topic_for(self._topic))
            self._cluster.create(letters, dead_letters.PARTITIONS)
            letter = dead_letters.letter(message, self._group, reason)
            self._producer.send(letters, [Outgoing(kafka_messages.key_bytes(letter.key), letter.value)])
            self._holdings.finish(message)
            self._commit(self._holdings.places)

    def renew(self) -> None:
        """The library keeps the session alive by itself, but wants to be polled. Nothing new is read meanwhile."""
        self._refuse_if_closed()
        with translating():
            self._client.pause([TopicPartition(*place) for place in self._holdings.places])
        self._is_quiet = True
        self._fetch(1, 0.0)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()

    # Delivery

    def _fetch(self, count: int, wait: float) -> None:
        """Reads what has arrived, waiting for the first message only."""
        with translating():
            first = self._client.poll(wait)
            if first is not None:
                self._arrived.append(first)
                # In two steps: while it reads, the library may call `_drop`, which replaces the queue.
                rest = self._client.consume(count - 1, 0) if count > 1 else []
                self._arrived.extend(rest)
        self._settle()
        while self._arrived:
            self._receive(self._arrived.popleft())
        self._pace_retries()

    def _end_quiet(self) -> None:
        """Reads again what `renew` had paused, but for retries that wait for space."""
        if not self._is_quiet:
            return
        places = [place for place in self._holdings.places if not (self._retries_paused and place[0] == self._retry)]
        with translating():
            self._client.resume([TopicPartition(*place) for place in places])
        self._is_quiet = False

    def _receive(self, message: KafkaMessage) -> None:
        error = message.error()
        if error:
            if error.code() in _PASSING:
                _log.warning("Kafka: %s", error.str())
                return
            raise translated(error)
        source = kafka_messages.source_of(message)
        if not self._holdings.expects(source):
            return
        if source.topic == self._retry:
            self._holdings.add_waiting(kafka_messages.retried_delivery(self._topic, message))
        else:
            self._holdings.add_ready(Delivery(kafka_messages.first_delivery(self._topic, message), source))

    def _seconds_to_next_retry(self) -> float:
        due = self._holdings.next_due()
        return REQUEST_SECONDS if due is None else max(0.001, due - time.time())

    def _pace_retries(self) -> None:
        """Bounds the memory that waiting retries take: further ones are left on the broker."""
        size = self._holdings.waiting_bytes
        retries = [TopicPartition(topic, number) for topic, number in self._holdings.places if topic == self._retry]
        with translating():
            if size > MAX_WAITING_BYTES:
                self._client.pause(retries)
                self._retries_paused = True
            elif self._retries_paused and size < MAX_WAITING_BYTES / 2:
                self._client.resume(retries)
                self._retries_paused = False

    # Completion

    def _is_in_flight(self, message: Message) -> bool:
        return message.topic == self._topic and self._holdings.in_flight(message)

    def _commit(self, places: list[PartitionId]) -> None:
        changed = self._holdings.uncommitted(places)
        if not changed:
            return
        offsets = [TopicPartition(*place, offset, metadata=note) for place, (offset, note) in changed.items()]
        try:
            for answer in self._client.commit(offsets=offsets, asynchronous=False):
                if answer.error:
                    raise KafkaException(answer.error)
        except KafkaException as error:
            if error.args[0].code() not in _LOST_MEMBERSHIP:
                raise translated(error.args[0]) from error
            # Either the partitions are another member's by now, which finishes the messages once more,
            # or they stay ours when the group has settled, and the next commit carries this one along.
            _log.info("Kafka did not take a commit of group %r: %s", self._group, error.args[0].str())
            return
        self._holdings.committed(changed)
        self._trim_retries(changed)

    def _trim_retries(self, changed: Mapping[PartitionId, tuple[int, str]]) -> None:
        """Nobody else reads the retry topic, so what is committed there can go."""
        for (topic, partition), (offset, _) in changed.items():
            if topic == self._retry and offset >= self._trimmed.get(partition, 0) + TRIM_RETRIES_EVERY:
                self._trimmed[partition] = offset
                try:
                    self._cluster.delete_before(topic, partition, offset)
                except TidegateError as error:
                    _log.warning("cannot free the space of finished retries in %s: %s", topic, error)

    # Membership; the library calls these from within poll, consume and close

    def _gain(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        self._gained += partitions

    def _settle(self) -> None:
        """Asks what predecessors finished in the partitions gained, before any message of theirs is looked at."""
        if not self._gained:
            return
        with translating():
            answers = self._client.committed(self._gained, REQUEST_SECONDS)
        for found in answers:
            if found.error:
                raise translated(found.error)
        for found in answers:
            done = read_note(found.offset, found.metadata or "") if found.offset >= 0 else set()
            self._holdings.gain(_place(found), done)
        self._gained = []

    def _give_up(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            self._commit([_place(partition) for partition in partitions])
        finally:
            self._drop(partitions)

    def _lose(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        _log.warning("a consumer of group %r of topic %r lost its partitions", self._group, self._topic)
        self._drop(partitions)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        dropped = {_place(partition) for partition in partitions}
        self._holdings.drop(dropped)
        self._gained = [gained for gained in self._gained if _place(gained) not in dropped]
        self._arrived = deque(
            message
            for message in self._arrived
            if message.error() or kafka_messages.source_of(message).place not in dropped
        )

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Unavailable("this consumer has been closed; join the group again")


def _member_settings(settings: Mapping[str, Any], group: str, lease_seconds: float) -> dict[str, Any]:
    return {
        **settings,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        # Each member gets its share of the topic and of its retries, and the same partitions of both.
        "partition.assignment.strategy": "range",
        "session.timeout.ms": int(lease_seconds * 1000),
        "heartbeat.interval.ms": max(100, int(lease_seconds * 1000 / 4)),
        "max.poll.interval.ms": int(max(LONGEST_SILENCE_SECONDS, lease_seconds) * 1000),
        "queued.max.messages.kbytes": 16384,
        "fetch.wait.max.ms": 200,
    }


def _place(partition: TopicPartition) -> PartitionId:
    return partition.topic, partition.partition
