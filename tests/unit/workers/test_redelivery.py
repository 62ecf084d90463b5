"""A message that comes again finds what its first attempt appended, wherever that was broken off."""

from __future__ import annotations

import pytest
from storage import Storage

from tidegate.ports import Consumer, Message, Record
from tidegate.workers.redelivery import PriorAttempts, Redelivery

IN, OUT = "in", "out"


@pytest.fixture
def consumer(storage: Storage) -> Consumer:
    storage.topics.create(IN, 1)
    storage.topics.create(OUT, 2)
    storage.topics.append(IN, [Record("k", str(number).encode()) for number in range(10)])
    return storage.topics.consumer(IN, "group")


def redelivery(storage: Storage) -> Redelivery:
    return Redelivery(storage.tables, storage.topics, topic=IN, group="group", appends=[OUT])


def found(storage: Storage, prior: PriorAttempts) -> set[bytes]:
    return set(prior.appended(OUT))


def restarted(storage: Storage, consumer: Consumer) -> Consumer:
    consumer.close()
    return storage.topics.consumer(IN, "group")


def offsets(messages: list[Message]) -> list[int]:
    return [message.offset for message in messages]


def test_what_was_never_begun_recalls_nothing(storage: Storage, consumer: Consumer) -> None:
    storage.topics.append(OUT, [Record("x", b"older")])
    assert not redelivery(storage).begin(consumer.poll(4)).messages


def test_a_batch_that_was_begun_recalls_what_was_appended_since(storage: Storage, consumer: Consumer) -> None:
    storage.topics.append(OUT, [Record("x", b"older")])
    redelivery(storage).begin(consumer.poll(4))
    storage.topics.append(OUT, [Record(key, key.encode()) for key in "abcd"])
    again = restarted(storage, consumer).poll(4)
    prior = redelivery(storage).begin(again)
    assert offsets(list(prior.messages)) == [0, 1, 2, 3]
    assert found(storage, prior) == {b"a", b"b", b"c", b"d"}


def test_it_does_so_after_every_further_crash(storage: Storage, consumer: Consumer) -> None:
    for appended in (b"first", b"second", b"third"):
        prior = redelivery(storage).begin(consumer.poll(4))
        storage.topics.append(OUT, [Record("x", appended)])
        consumer = restarted(storage, consumer)
    assert found(storage, prior) == {b"first", b"second", b"third"}


def test_batches_of_another_size_recall_their_part(storage: Storage, consumer: Consumer) -> None:
    redelivery(storage).begin(consumer.poll(4))
    storage.topics.append(OUT, [Record("x", b"a")])
    consumer, current = restarted(storage, consumer), redelivery(storage)
    first = consumer.poll(2)
    assert offsets(list(current.begin(first).messages)) == [0, 1]
    consumer.acknowledge(first)
    current.end(first)
    rest = consumer.poll(8)
    prior = current.begin(rest)
    assert offsets(list(prior.messages)) == [2, 3]
    assert found(storage, prior) == {b"a"}


def test_what_was_finished_is_forgotten(storage: Storage, consumer: Consumer) -> None:
    current = redelivery(storage)
    batch = consumer.poll(4)
    current.begin(batch)
    consumer.acknowledge(batch)
    current.end(batch)
    assert storage.tables.get("workers/begun/group/in/0") == "[]"


def test_a_crash_between_acknowledging_and_forgetting_leaves_no_trace_for_later_messages(
    storage: Storage, consumer: Consumer
) -> None:
    batch = consumer.poll(4)
    redelivery(storage).begin(batch)
    consumer.acknowledge(batch)
    later = restarted(storage, consumer).poll(4)
    assert offsets(later) == [4, 5, 6, 7]
    assert not redelivery(storage).begin(later).messages
    assert "[0,1]" not in str(storage.tables.get("workers/begun/group/in/0"))


def test_a_retried_message_is_begun_anew(storage: Storage, consumer: Consumer) -> None:
    current = redelivery(storage)
    batch = consumer.poll(1)
    current.begin(batch)
    consumer.retry_later(batch[0], not_before=0)
    current.end(batch)
    retried = [message for message in consumer.poll(10) if message.attempt == 2]
    assert not current.begin(retried).messages
    again = [message for message in restarted(storage, consumer).poll(10) if message.attempt == 2]
    assert offsets(list(redelivery(storage).begin(again).messages)) == [0]
