"""How topics, groups and messages of the port are written in Kafka.

| of the port                | in Kafka                                                            |
| -------------------------- | ------------------------------------------------------------------- |
| topic T                    | topic `PREFIX T`                                                    |
| group G of T               | group `PREFIX T:G`                                                  |
| what G retries later       | topic `PREFIX T.G.retry`, with the headers below                    |
| dead letters of T          | topic `PREFIX T.dead-letters`                                       |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message as KafkaMessage

from tidegate.adapters.kafka_producer import Outgoing
from tidegate.adapters.kafka_progress import Delivery, Source
from tidegate.adapters.limits import RETRY_SUFFIX
from tidegate.ports import Message

_NOT_BEFORE = "tidegate-not-before"
_ATTEMPT = "tidegate-attempt"
_PARTITION = "tidegate-origin-partition"
_OFFSET = "tidegate-origin-offset"
_APPENDED_AT = "tidegate-appended-at"


@dataclass(frozen=True, slots=True)
class Names:
    """The names Kafka sees, with the installation's prefix."""

    prefix: str

    def topic(self, topic: str) -> str:
        return self.prefix + topic

    def group(self, topic: str, group: str) -> str:
        return f"{self.prefix}{topic}:{group}"

    def retry(self, topic: str, group: str) -> str:
        return f"{self.prefix}{topic}.{group}{RETRY_SUFFIX}"

    def visible(self, kafka_topic: str) -> str | None:
        """The port's name of a topic; None for one that is foreign or internal."""
        if (
            not kafka_topic.startswith(self.prefix)
            or kafka_topic.startswith("__")
            or kafka_topic.endswith(RETRY_SUFFIX)
        ):
            return None
        return kafka_topic.removeprefix(self.prefix)


def first_delivery(topic: str, message: KafkaMessage) -> Message:
    source = source_of(message)
    return Message(
        topic=topic,
        partition=source.partition,
        offset=source.offset,
        key=_text(message.key()),
        value=message.value() or b"",
        appended_at=message.timestamp()[1] / 1000,
    )


def retry(message: Message, not_before: float, partition: int) -> Outgoing:
    """The message as it goes to the retry topic."""
    headers = (
        (_NOT_BEFORE, repr(not_before)),
        (_ATTEMPT, str(message.attempt + 1)),
        (_PARTITION, str(message.partition)),
        (_OFFSET, str(message.offset)),
        (_APPENDED_AT, repr(message.appended_at)),
    )
    return Outgoing(
        key_bytes(message.key),
        message.value,
        partition,
        tuple((name, text.encode()) for name, text in headers),
    )


def retried_delivery(topic: str, message: KafkaMessage) -> Delivery:
    """The message as it comes back from the retry topic."""
    headers = {name: value.decode() for name, value in _headers(message)}
    return Delivery(
        Message(
            topic=topic,
            partition=int(headers[_PARTITION]),
            offset=int(headers[_OFFSET]),
            key=_text(message.key()),
            value=message.value() or b"",
            appended_at=float(headers[_APPENDED_AT]),
            attempt=int(headers[_ATTEMPT]),
        ),
        source_of(message),
        float(headers[_NOT_BEFORE]),
    )


def source_of(message: KafkaMessage) -> Source:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "only an error has no place"
    return Source(topic, partition, offset)


def _headers(message: KafkaMessage) -> list[tuple[str, bytes]]:
    headers: Any = message.headers()  # the library's type allows forms that it never gives
    return headers or []


def key_bytes(key: str) -> bytes:
    return key.encode(errors="surrogateescape")


def _text(key: bytes | None) -> str:
    # Tidegate writes UTF-8; what another producer wrote comes back unchanged when it is retried.
    return (key or b"").decode(errors="surrogateescape")
