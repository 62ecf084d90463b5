"""What the suites about consumer groups have in common."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.ports import Consumer, Message, Record, Topics

PATIENCE_SECONDS = 180.0


def gather(consumer: Consumer, count: int, limit: int = 100) -> list[Message]:
    """Polls until `count` messages came, without acknowledging them."""
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} messages came"
        found += consumer.poll(min(limit, count - len(found)), 0.5)
    return found


@contextmanager
def joined(topics: Topics, topic: str = "t", group: str = "g") -> Iterator[Consumer]:
    consumer = topics.consumer(topic, group)
    try:
        yield consumer
    finally:
        consumer.close()


def fill(topics: Topics, count: int, partitions: int = 1, keys: int = 7) -> None:
    topics.create("t", partitions)
    topics.append("t", [Record(f"key-{number % keys}", b"%d" % number) for number in range(count)])


def values(messages: list[Message]) -> list[int]:
    return [int(message.value) for message in messages]


def assert_nothing_comes(topics: Topics) -> None:
    """A marker appended now is the first thing a member sees."""
    topics.append("t", [Record("marker", b"-1")])
    with joined(topics) as consumer:
        assert values(gather(consumer, 1)) == [-1]
        assert consumer.poll(10, 0.2) == []
