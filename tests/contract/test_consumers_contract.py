"""How a member of a consumer group gets and finishes messages, the same over every adapter and its real server."""

from __future__ import annotations

import pytest
from contract_groups import assert_nothing_comes, fill, gather, joined, values
from contract_processes import TopicsAddress

from tidegate.core.errors import Unavailable
from tidegate.ports import Message, Record, Topics

QUIET_SECONDS = 1.0


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
