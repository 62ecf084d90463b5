"""A message that comes again finds what its first attempt appended, wherever that was broken off."""

from __future__ import annotations

import pytest
from lifecycle_place import LifecyclePlace

from tidegate.lifecycle.acting.redelivery import PriorAttempts, Redelivery
from tidegate.ports import Consumer, Message, Record

IN, OUT = "in", "out"


@pytest.fixture
def consumer(place: LifecyclePlace) -> Consumer:
    place.topics.create(IN, 1)
    place.topics.create(OUT, 2)
    place.topics.append(IN, [Record("k", str(number).encode()) for number in range(10)])
    return place.topics.consumer(IN, "group")


def undertakings(place: LifecyclePlace) -> Redelivery:
    return Redelivery(place.tables, place.topics, consumed=IN, appended=[OUT])


def found(place: LifecyclePlace, prior: PriorAttempts) -> set[bytes]:
    values: set[bytes] = set()
    if prior.messages:
        undertakings(place).appended_since(prior, OUT, values.add)
    return values


def restarted(place: LifecyclePlace, consumer: Consumer) -> Consumer:
    consumer.close()
    return place.topics.consumer(IN, "group")


def offsets(messages: list[Message]) -> list[int]:
    return [message.offset for message in messages]


def test_what_was_never_begun_recalls_nothing(place: LifecyclePlace, consumer: Consumer) -> None:
    place.topics.append(OUT, [Record("x", b"older")])
    assert not undertakings(place).begin(consumer.poll(4)).messages


def test_a_batch_that_was_begun_recalls_what_was_appended_since(place: LifecyclePlace, consumer: Consumer) -> None:
    place.topics.append(OUT, [Record("x", b"older")])
    undertakings(place).begin(consumer.poll(4))
    place.topics.append(OUT, [Record(key, key.encode()) for key in "abcd"])
    again = restarted(place, consumer).poll(4)
    prior = undertakings(place).begin(again)
    assert offsets(list(prior.messages)) == [0, 1, 2, 3]
    assert found(place, prior) == {b"a", b"b", b"c", b"d"}


def test_it_does_so_after_every_further_crash(place: LifecyclePlace, consumer: Consumer) -> None:
    for appended in (b"first", b"second", b"third"):
        prior = undertakings(place).begin(consumer.poll(4))
        place.topics.append(OUT, [Record("x", appended)])
        consumer = restarted(place, consumer)
    assert found(place, prior) == {b"first", b"second", b"third"}


def test_batches_of_another_size_recall_their_part(place: LifecyclePlace, consumer: Consumer) -> None:
    undertakings(place).begin(consumer.poll(4))
    place.topics.append(OUT, [Record("x", b"a")])
    consumer, current = restarted(place, consumer), undertakings(place)
    first = consumer.poll(2)
    assert offsets(list(current.begin(first).messages)) == [0, 1]
    consumer.acknowledge(first)
    current.end(first)
    rest = consumer.poll(8)
    prior = current.begin(rest)
    assert offsets(list(prior.messages)) == [2, 3]
    assert found(place, prior) == {b"a"}


def test_what_was_finished_is_forgotten(place: LifecyclePlace, consumer: Consumer) -> None:
    current = undertakings(place)
    batch = consumer.poll(4)
    current.begin(batch)
    consumer.acknowledge(batch)
    current.end(batch)
    assert place.tables.get("lifecycle/undertakings/in/0") == "[]"


def test_a_crash_between_acknowledging_and_forgetting_leaves_no_trace_for_later_messages(
    place: LifecyclePlace, consumer: Consumer
) -> None:
    batch = consumer.poll(4)
    undertakings(place).begin(batch)
    consumer.acknowledge(batch)
    later = restarted(place, consumer).poll(4)
    assert offsets(later) == [4, 5, 6, 7]
    assert not undertakings(place).begin(later).messages
    assert "[0,1]" not in str(place.tables.get("lifecycle/undertakings/in/0"))


def test_a_retried_message_is_a_new_undertaking(place: LifecyclePlace, consumer: Consumer) -> None:
    current = undertakings(place)
    batch = consumer.poll(1)
    current.begin(batch)
    consumer.retry_later(batch[0], not_before=0)
    current.end(batch)
    retried = [message for message in consumer.poll(10) if message.attempt == 2]
    assert not current.begin(retried).messages
    again = [message for message in restarted(place, consumer).poll(10) if message.attempt == 2]
    assert offsets(list(undertakings(place).begin(again).messages)) == [0]
