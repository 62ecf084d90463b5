"""Members of a group that come, go, die and freeze, the same over every adapter and its real server."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from dataclasses import replace

from contract_groups import PATIENCE_SECONDS, assert_nothing_comes, fill, gather, joined, values
from contract_processes import (
    Child,
    TopicsAddress,
    acknowledge_some,
    children,
    hold_messages,
    retry_first,
    work_until_told,
)

from tidegate.ports import Consumer, Message, Record, Topics


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


def test_a_member_that_renews_its_lease_keeps_its_messages_for_as_long_as_it_needs(
    topics_address: TopicsAddress,
) -> None:
    patient = replace(topics_address, lease_seconds=8.0)
    with closing(patient.open()) as topics:
        topics.create("t", 4)
        with joined(topics) as busy, children((work_until_told, patient, "t", "g")) as [other]:
            held, others, deadline = _shared_out(topics, busy, other)
            until = time.monotonic() + 1.5 * patient.lease_seconds
            while time.monotonic() < until:
                busy.renew()
                time.sleep(patient.lease_seconds / 5)
            busy.acknowledge(held)
            while topics.lag("t", "g"):
                assert time.monotonic() < deadline
                rest = busy.poll(100, 0.1)  # of its partitions, what had not arrived with the first ones
                busy.acknowledge(rest)
                held += rest
            other.say("end")
            while (told := other.hear()) is not None:
                others += [int(value) for _, value in told]
            assert not set(values(held)) & set(others), "messages were delivered a second time"
        assert_nothing_comes(topics)


def _shared_out(topics: Topics, busy: Consumer, other: Child) -> tuple[list[Message], list[int], float]:
    """Appends until both members have got something: what the first one holds, and what the other has done."""
    held: list[Message] = []
    others: list[int] = []
    deadline, appended = time.monotonic() + PATIENCE_SECONDS, 0
    while not (held and others):
        assert time.monotonic() < deadline
        busy.acknowledge(held)
        topics.append("t", [Record(f"key-{number}", b"%d" % number) for number in range(appended, appended + 20)])
        appended += 20
        others += [int(value) for _, value in other.hear()] if other.line.poll(0.2) else []
        held = busy.poll(100, 1.0)
    return held, others, time.monotonic() + PATIENCE_SECONDS


def test_what_came_while_a_member_only_renewed_its_lease_is_delivered_afterwards(topics: Topics) -> None:
    fill(topics, 1)
    with joined(topics) as consumer:
        first = gather(consumer, 1)
        consumer.renew()
        topics.append("t", [Record("key", b"%d" % number) for number in (1, 2)])
        for _ in range(5):
            consumer.renew()
            time.sleep(0.1)
        consumer.acknowledge(first)
        assert values(gather(consumer, 2)) == [1, 2]
