"""The behaviour of consumer groups, the same over every adapter and its real server."""

from __future__ import annotations

import base64
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from contract_processes import (
    PATIENCE_SECONDS,
    TopicsAddress,
    acknowledge_some,
    children,
    gather,
    hold_messages,
    retry_first,
    work_until_told,
)

from tidegate.adapters.limits import MAX_MESSAGE_BYTES
from tidegate.core.errors import Unavailable
from tidegate.ports import Consumer, Message, Record, Topics

QUIET_SECONDS = 1.0


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


def test_new_group_gets_everything_in_order_per_partition(topics: Topics) -> None:
    fill(topics, 200, partitions=3)
    with joined(topics) as consumer:
        messages = gather(consumer, 200)
        assert sorted(values(messages)) == list(range(200))
        for partition, (first, end) in enumerate(topics.bounds("t")):
            assert [m.offset for m in messages if m.partition == partition] == list(range(first, end))
        assert {message.attempt for message in messages} == {1}


def test_poll_never_gives_more_than_the_limit(topics: Topics) -> None:
    fill(topics, 20, partitions=3)
    with joined(topics) as consumer:
        seen = 0
        while seen < 20:
            batch = consumer.poll(3, 0.5)
            assert len(batch) <= 3
            seen += len(batch)


def test_poll_of_an_empty_topic_gives_nothing(topics: Topics) -> None:
    topics.create("t", 2)
    with joined(topics) as consumer:
        assert consumer.poll(10, 0.2) == []
        assert consumer.poll(10, 0) == []


def test_message_appended_while_waiting_arrives(topics: Topics) -> None:
    topics.create("t", 2)
    with joined(topics) as consumer:
        consumer.poll(1, 0.1)
        topics.append("t", [Record("k", b"1")])
        assert values(gather(consumer, 1)) == [1]


def test_acknowledged_messages_do_not_come_back(topics: Topics) -> None:
    fill(topics, 50, partitions=2)
    assert topics.lag("t", "g") == 50
    with joined(topics) as consumer:
        consumer.acknowledge(gather(consumer, 50))
        assert topics.lag("t", "g") == 0
    assert_nothing_comes(topics)


def test_committed_offsets_survive_reopening(topics: Topics, topics_address: TopicsAddress) -> None:
    fill(topics, 20)
    first = topics_address.open()
    with joined(first) as consumer:
        consumer.acknowledge(gather(consumer, 12))
    first.close()
    assert topics.lag("t", "g") == 8
    with joined(topics) as consumer:
        assert values(gather(consumer, 8)) == list(range(12, 20))


def test_what_was_not_acknowledged_comes_again_after_close(topics: Topics) -> None:
    fill(topics, 10)
    with joined(topics) as consumer:
        gather(consumer, 10)
    with joined(topics) as consumer:
        again = gather(consumer, 10)
        assert values(again) == list(range(10))
        assert {message.attempt for message in again} == {1}


def test_messages_acknowledged_out_of_order_are_remembered(topics: Topics) -> None:
    fill(topics, 30)
    open_values = {0, 7, 8, 20}
    with joined(topics) as consumer:
        messages = gather(consumer, 30)
        for message in reversed(messages):
            if int(message.value) not in open_values:
                consumer.acknowledge([message])
        assert topics.lag("t", "g") == len(open_values)
    with joined(topics) as consumer:
        messages = gather(consumer, len(open_values))
        assert values(messages) == sorted(open_values)
        consumer.acknowledge(messages[1:])
        assert topics.lag("t", "g") == 1
    with joined(topics) as consumer:
        messages = gather(consumer, 1)
        consumer.acknowledge(messages)
    assert topics.lag("t", "g") == 0
    assert_nothing_comes(topics)


def test_acknowledging_twice_or_what_was_never_delivered_changes_nothing(topics: Topics) -> None:
    fill(topics, 5)
    with joined(topics) as consumer:
        messages = gather(consumer, 2, limit=2)
        consumer.acknowledge(messages)
        consumer.acknowledge(messages)
        consumer.acknowledge([Message("t", 0, 4, "k", b"", 0.0), Message("other", 0, 2, "k", b"", 0.0)])
        consumer.acknowledge([])
        assert topics.lag("t", "g") == 3
        assert values(gather(consumer, 3)) == [2, 3, 4]


def test_groups_do_not_disturb_each_other(topics: Topics) -> None:
    fill(topics, 10)
    with joined(topics, group="one") as one, joined(topics, group="two") as two:
        one.acknowledge(gather(one, 10))
        assert topics.lag("t", "one") == 0
        assert topics.lag("t", "two") == 10
        messages = gather(two, 10)
        two.retry_later(messages[0], not_before=0)
        two.acknowledge(messages[1:])
        [retried] = gather(two, 1)
        assert retried.attempt == 2
        assert one.poll(10, QUIET_SECONDS) == []


def test_group_of_one_topic_is_not_that_of_another(topics: Topics) -> None:
    fill(topics, 3)
    topics.create("u", 1)
    topics.append("u", [Record("k", b"9")])
    with joined(topics, "t") as of_t, joined(topics, "u") as of_u:
        assert values(gather(of_u, 1)) == [9]
        of_t.acknowledge(gather(of_t, 3))
    assert topics.lag("u", "g") == 1


def test_new_group_after_a_trim_starts_at_what_is_left(topics: Topics) -> None:
    fill(topics, 10)
    topics.trim("t", 0, 6)
    assert topics.lag("t", "g") == 4
    with joined(topics) as consumer:
        consumer.acknowledge(gather(consumer, 4))
        assert topics.lag("t", "g") == 0


def test_group_behind_a_trim_goes_on_at_what_is_left(topics: Topics) -> None:
    fill(topics, 10)
    with joined(topics) as consumer:
        consumer.acknowledge(gather(consumer, 2, limit=2))
    topics.trim("t", 0, 6)
    assert topics.lag("t", "g") == 4
    with joined(topics) as consumer:
        messages = gather(consumer, 4)
        assert values(messages) == [6, 7, 8, 9]
        consumer.acknowledge(messages)
    assert topics.lag("t", "g") == 0


def test_closed_consumer_says_so(topics: Topics) -> None:
    topics.create("t", 1)
    consumer = topics.consumer("t", "g")
    consumer.close()
    consumer.close()
    with pytest.raises(Unavailable):
        consumer.poll(1, 0)
    with pytest.raises(Unavailable):
        consumer.acknowledge([])


# Retries


def test_retry_comes_not_before_its_time_and_holds_up_nobody(topics: Topics) -> None:
    fill(topics, 10)
    with joined(topics) as consumer:
        [first] = gather(consumer, 1)
        not_before = time.time() + 1.5
        consumer.retry_later(first, not_before=not_before)
        behind = gather(consumer, 9)
        assert values(behind) == list(range(1, 10))
        consumer.acknowledge(behind)
        assert topics.lag("t", "g") == 1
        [again] = gather(consumer, 1)
        assert time.time() >= not_before
        assert again == Message("t", 0, first.offset, first.key, first.value, first.appended_at, attempt=2)
        consumer.acknowledge([again])
        assert topics.lag("t", "g") == 0
    assert_nothing_comes(topics)


def test_attempts_are_counted(topics: Topics) -> None:
    fill(topics, 1)
    with joined(topics) as consumer:
        for attempt in (1, 2, 3, 4):
            [message] = gather(consumer, 1)
            assert message.attempt == attempt
            assert topics.lag("t", "g") == 1
            consumer.retry_later(message, not_before=0)
        [message] = gather(consumer, 1)
        consumer.acknowledge([message])
        assert topics.lag("t", "g") == 0


def test_retries_come_by_their_time(topics: Topics) -> None:
    fill(topics, 3)
    with joined(topics) as consumer:
        start = time.time()
        for message, delay in zip(gather(consumer, 3), (1.0, 0.2, 0.6), strict=True):
            consumer.retry_later(message, not_before=start + delay)
        assert values(gather(consumer, 3)) == [1, 2, 0]


def test_retry_survives_reopening(topics: Topics, topics_address: TopicsAddress) -> None:
    fill(topics, 4, partitions=2)
    not_before = time.time() + 2
    first = topics_address.open()
    with joined(first) as consumer:
        messages = gather(consumer, 4)
        consumer.retry_later(messages[2], not_before=not_before)
        consumer.acknowledge([*messages[:2], messages[3]])
    first.close()
    assert topics.lag("t", "g") == 1
    with joined(topics) as consumer:
        [again] = gather(consumer, 1)
        assert time.time() >= not_before
        assert (again.partition, again.offset, again.attempt) == (messages[2].partition, messages[2].offset, 2)


def test_retry_delivered_and_not_finished_comes_again_with_the_same_attempt(topics: Topics) -> None:
    fill(topics, 1)
    with joined(topics) as consumer:
        consumer.retry_later(gather(consumer, 1)[0], not_before=0)
        assert gather(consumer, 1)[0].attempt == 2
    with joined(topics) as consumer:
        assert gather(consumer, 1)[0].attempt == 2


def test_retries_that_are_always_due_do_not_starve_new_messages(topics: Topics) -> None:
    fill(topics, 6)
    with joined(topics) as consumer:
        first_deliveries: set[int] = set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(first_deliveries) < 6:
            assert time.monotonic() < deadline
            for message in consumer.poll(1, 0.5):
                first_deliveries.add(int(message.value))
                consumer.retry_later(message, not_before=0)


def test_retry_outlives_the_trimmed_original(topics: Topics) -> None:
    fill(topics, 2)
    with joined(topics) as consumer:
        messages = gather(consumer, 2)
        consumer.retry_later(messages[0], not_before=time.time() + 0.5)
        consumer.acknowledge(messages[1:])
        topics.trim("t", 0, 2)
        assert topics.lag("t", "g") == 1
        assert values(gather(consumer, 1)) == [0]


# Dead letters


def test_dead_letter_tells_everything_and_finishes_the_message(topics: Topics) -> None:
    topics.create("t", 1)
    topics.append("t", [Record("a:b\n😀", b"\x00\xff")])
    with joined(topics) as consumer:
        [message] = gather(consumer, 1)
        consumer.retry_later(message, not_before=0)
        [message] = gather(consumer, 1)
        assert topics.names() == ["t"]
        consumer.dead_letter(message, "no such bucket")
        assert topics.lag("t", "g") == 0
    assert topics.names() == ["t", "t.dead-letters"]
    [letter] = topics.read("t.dead-letters", 0, 0, 10)
    assert letter.key == "a:b\n😀"
    assert json.loads(letter.value) == {
        "key": "a:b\n😀",
        "value": base64.b64encode(b"\x00\xff").decode(),
        "reason": "no such bucket",
        "attempt": 2,
        "group": "g",
        "origin": {"topic": "t", "partition": 0, "offset": 0},
        "appended_at": message.appended_at,
    }
    assert_nothing_comes(topics)


def test_dead_letter_may_be_the_first_answer_to_the_largest_message(topics: Topics) -> None:
    topics.create("t", 1)
    topics.append("t", [Record("\x01" * 8192, b"x" * MAX_MESSAGE_BYTES)])
    with joined(topics) as consumer:
        consumer.dead_letter(gather(consumer, 1)[0], "é" * 100_000)
    [letter] = topics.read("t.dead-letters", 0, 0, 10)
    assert base64.b64decode(json.loads(letter.value)["value"]) == b"x" * MAX_MESSAGE_BYTES
    assert topics.lag("t", "g") == 0


def test_dead_letters_can_be_consumed_like_any_topic(topics: Topics) -> None:
    fill(topics, 1)
    with joined(topics) as consumer:
        consumer.dead_letter(gather(consumer, 1)[0], "bad")
    with joined(topics, "t.dead-letters", "operator") as operator:
        [letter] = gather(operator, 1)
        assert json.loads(letter.value)["reason"] == "bad"
        operator.acknowledge([letter])
    assert topics.lag("t.dead-letters", "operator") == 0


# Several members


def test_members_in_several_processes_share_the_work(topics: Topics, topics_address: TopicsAddress) -> None:
    topics.create("t", 4)
    places: dict[int, set[int]] = {0: set(), 1: set()}
    done: list[int] = []
    appended = 0
    with children(*[(work_until_told, topics_address, "t", "g")] * 2) as members:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (places[0] and places[1] and set(done) == set(range(appended)) and appended):
            assert time.monotonic() < deadline, f"the members saw {places}"
            numbers = range(appended, appended + 40)
            topics.append("t", [Record(f"key-{number}", b"%d" % number) for number in numbers])
            appended += 40
            for index, member in enumerate(members):
                while member.line.poll(0.3):
                    for partition, value in member.hear():
                        places[index].add(partition)
                        done.append(int(value))
        for member in members:
            member.say("end")
        for member in members:
            while member.hear() is not None:
                pass
    assert topics.lag("t", "g") == 0


def test_member_that_joins_later_loses_and_blocks_nothing(topics: Topics, topics_address: TopicsAddress) -> None:
    fill(topics, 300, partitions=4, keys=50)
    seen: set[int] = set()
    with joined(topics) as first, children((work_until_told, topics_address, "t", "g")) as [second]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while seen != set(range(300)):
            assert time.monotonic() < deadline
            batch = first.poll(5, 0.05)
            first.acknowledge(batch)
            seen.update(values(batch))
            while second.line.poll(0):
                seen.update(int(value) for _, value in second.hear())
        second.say("end")
        while second.hear() is not None:
            pass
    assert topics.lag("t", "g") == 0


def test_messages_of_a_killed_member_come_back(topics: Topics, topics_address: TopicsAddress) -> None:
    fill(topics, 10, partitions=2)
    with children((hold_messages, topics_address, "t", "g", 10)) as [member]:
        member.hear()
        member.signal(signal.SIGKILL)
        with joined(topics) as successor:
            messages = gather(successor, 10)
            assert sorted(values(messages)) == list(range(10))
            successor.acknowledge(messages)
    assert topics.lag("t", "g") == 0


def test_what_a_killed_member_acknowledged_stays_acknowledged(topics: Topics, topics_address: TopicsAddress) -> None:
    fill(topics, 10)
    with children((acknowledge_some, topics_address, "t", "g", 6)) as [member]:
        member.hear()
        member.signal(signal.SIGKILL)
        with joined(topics) as successor:
            assert values(gather(successor, 4)) == [6, 7, 8, 9]


def test_retry_of_a_killed_member_comes_not_before_its_time(topics: Topics, topics_address: TopicsAddress) -> None:
    fill(topics, 1)
    not_before = time.time() + 4
    with children((retry_first, topics_address, "t", "g", not_before)) as [member]:
        member.hear()
        member.signal(signal.SIGKILL)
        with joined(topics) as successor:
            [again] = gather(successor, 1)
            assert time.time() >= not_before
            assert again.attempt == 2


def test_member_that_was_frozen_cannot_undo_what_its_successor_did(
    topics: Topics, topics_address: TopicsAddress
) -> None:
    fill(topics, 10)
    with children((hold_messages, topics_address, "t", "g", 10)) as [frozen]:
        frozen.hear()
        frozen.signal(signal.SIGSTOP)
        with joined(topics) as successor:
            messages = gather(successor, 10)
            successor.retry_later(messages[3], not_before=0)
            successor.acknowledge(messages[:3])
            frozen.signal(signal.SIGCONT)
            frozen.say("acknowledge")
            assert frozen.hear() == "acknowledged"
            assert topics.lag("t", "g") == 7
            successor.acknowledge(messages[4:])
            [again] = gather(successor, 1)
            assert (again.offset, again.attempt) == (3, 2)
            successor.acknowledge([again])
        assert topics.lag("t", "g") == 0
    assert_nothing_comes(topics)
