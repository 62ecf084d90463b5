"""Messages put off and messages given up, the same over every adapter and its real server."""

from __future__ import annotations

import base64
import json
import time

from contract_groups import PATIENCE_SECONDS, assert_nothing_comes, fill, gather, joined, values
from contract_processes import TopicsAddress

from tidegate.adapters.limits import MAX_MESSAGE_BYTES
from tidegate.ports import GroupProgress, Message, Record, Topics


def test_retry_comes_not_before_its_time_and_holds_up_nobody(topics: Topics) -> None:
    fill(topics, 10)
    with joined(topics) as consumer:
        [first] = gather(consumer, 1)
        not_before = time.time() + 12
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
        messages = gather(consumer, 3)
        start = time.time() + 3
        for message, delay in zip(messages, (2.0, 1.0, 1.5), strict=True):
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


def test_progress_tells_what_is_not_needed_any_more_and_what_waits_for_a_retry(topics: Topics) -> None:
    fill(topics, 6)
    topics.trim("t", 0, 1)
    assert topics.progress("t", "g") == GroupProgress((1,), 0)
    with joined(topics) as consumer:
        messages = gather(consumer, 5)
        consumer.acknowledge([messages[0], messages[3]])
        assert topics.progress("t", "g") == GroupProgress((2,), 0)
        consumer.retry_later(messages[1], not_before=time.time() + 3600)
        assert topics.progress("t", "g") == GroupProgress((3,), 1)
        consumer.dead_letter(messages[2], "no way")
        assert topics.progress("t", "g") == GroupProgress((5,), 1)
        assert topics.lag("t", "g") == 2


def test_a_message_that_waits_for_a_retry_is_kept_when_its_topic_is_trimmed(topics: Topics) -> None:
    fill(topics, 2)
    with joined(topics) as consumer:
        first, second = gather(consumer, 2)
        consumer.retry_later(first, not_before=time.time() + 1)
        consumer.acknowledge([second])
        [reached] = topics.progress("t", "g").reached
        assert reached == 2
        topics.trim("t", 0, reached)
        assert values(gather(consumer, 1)) == [0]
