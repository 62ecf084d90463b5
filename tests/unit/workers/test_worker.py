"""A consumer of its own in ten lines has retries, dead letters, redelivery, a rate and metrics."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from threading import Event as Flag
from typing import Any

import pytest
from prometheus_client import REGISTRY
from storage import LEASE_SECONDS, Storage

from tidegate.adapters.file_topics import FileTopics
from tidegate.core.errors import InvalidInput, Refused, Unavailable
from tidegate.workers.delivery import BUSY, DONE, Answer, Delivery, Disposition
from tidegate.workers.rate import InstallationRate
from tidegate.workers.retry_policy import RetryPolicy
from tidegate.workers.worker import Worker

TOPIC, GROUP = "example", "example"
AT_ONCE = RetryPolicy(delays=(0.0,), tries=3)


def number(value: bytes) -> int:
    if not value.isdigit():
        raise InvalidInput(f"no number: {value!r}")
    return int(value)


def worker(storage: Storage, handle: Callable[[Delivery[int]], None], **options: Any) -> Worker[int]:
    chosen = {"topic": TOPIC, "group": GROUP, "retries": AT_ONCE, "stop": Flag()} | options
    return Worker(storage.topics, storage.tables, decode=number, handle=handle, **chosen)


def finish(made: Worker[int]) -> None:
    while made.run_once():
        pass
    made.close()


def letters(storage: Storage) -> list[tuple[bytes, str, int]]:
    found = map(json.loads, storage.values(f"{TOPIC}.dead-letters"))
    return sorted((base64.b64decode(letter["value"]), letter["reason"], letter["attempt"]) for letter in found)


def counted(result: str) -> float:
    labels = {"topic": TOPIC, "group": GROUP, "result": result}
    return REGISTRY.get_sample_value("tidegate_worker_messages_total", labels) or 0.0


def test_a_second_consumer_is_a_message_type_and_a_function(storage: Storage) -> None:
    before = {result: counted(result) for result in ("done", "retried", "dead-lettered", "redelivered")}
    storage.append(TOPIC, [b"1", b"2", b"3", b"nonsense"])
    seen: list[tuple[int, int]] = []

    def do_it(delivery: Delivery[int]) -> None:
        seen.append((delivery.task, delivery.attempt))
        if delivery.task == 2 and delivery.attempt < 3:
            raise Unavailable("not yet")
        if delivery.task == 3:
            raise Unavailable("never")

    rate = InstallationRate(storage.tables, "example/members/", 1000)
    policy = RetryPolicy(delays=(0.0, 0.0), tries=3)
    example = Worker(
        storage.topics, storage.tables, topic=TOPIC, group=GROUP, decode=number, handle=do_it, retries=policy,
        rate=rate, stop=Flag(),
    )  # fmt: skip
    finish(example)

    assert Counter(seen) == {(1, 1): 1} | {(task, attempt): 1 for task in (2, 3) for attempt in (1, 2, 3)}
    assert letters(storage) == [(b"3", "never", 3), (b"nonsense", "no number: b'nonsense'", 1)]
    assert storage.topics.lag(TOPIC, GROUP) == 0
    labels = {"topic": TOPIC, "group": GROUP}
    assert REGISTRY.get_sample_value("tidegate_topic_lag", labels) == 4  # as it was when the worker began
    grown = {result: counted(result) - count for result, count in before.items()}
    assert grown == {"done": 2, "retried": 4, "dead-lettered": 2, "redelivered": 0}


def test_what_is_refused_is_not_tried_again(storage: Storage) -> None:
    storage.append(TOPIC, [b"1"])

    def refuse(delivery: Delivery[int]) -> None:
        raise Refused("forbidden")

    finish(worker(storage, refuse))
    assert letters(storage) == [(b"1", "forbidden", 1)]


def test_a_retry_waits_for_its_delay_and_holds_up_nothing(storage: Storage) -> None:
    storage.append(TOPIC, [b"1", b"2"])
    seen = []

    def fail_first(delivery: Delivery[int]) -> None:
        seen.append(delivery.task)
        if delivery.task == 1:
            raise Unavailable("not yet")

    finish(worker(storage, fail_first, retries=RetryPolicy(delays=(3600.0,), tries=2)))
    assert sorted(seen) == [1, 2]
    assert storage.topics.lag(TOPIC, GROUP) == 1


def test_a_message_that_takes_longer_than_the_lease_is_delivered_once_while_the_worker_says_that_it_is_busy(
    storage: Storage,
) -> None:
    lease_seconds = 3.0
    topics = FileTopics(storage.directory / "topics", lease_seconds=lease_seconds)
    storage.append(TOPIC, [b"1"])
    delivered_again = []

    def take_long(deliveries: Sequence[Delivery[int]]) -> Iterator[Answer]:
        other = topics.consumer(TOPIC, GROUP)
        until = time.monotonic() + 1.5 * lease_seconds
        while time.monotonic() < until:
            delivered_again.extend(other.poll(10, 0.05))
            yield BUSY
        other.close()
        yield from [DONE] * len(deliveries)

    busy = Worker(
        topics, storage.tables, topic=TOPIC, group=GROUP, decode=number, handle_batch=take_long,
        lease_seconds=lease_seconds, stop=Flag(),
    )  # fmt: skip
    assert busy.run_once(wait_seconds=5.0) == 1
    busy.close()
    assert delivered_again == []
    assert topics.lag(TOPIC, GROUP) == 0
    topics.close()


def test_a_fault_leaves_the_batch_to_be_delivered_again_and_the_function_is_told(storage: Storage) -> None:
    storage.append(TOPIC, [b"1", b"2"])
    storage.append("results", [])
    told: list[tuple[int, bool]] = []

    def fail(delivery: Delivery[int]) -> None:
        told.append((delivery.task, delivery.prior is not None))
        storage.append("results", [b"half done"])
        raise ZeroDivisionError

    def go_on(delivery: Delivery[int]) -> None:
        told.append((delivery.task, delivery.prior is not None))
        assert list(delivery.appended_before("results")) == [b"half done"]

    broken = worker(storage, fail, appends=["results"])
    with pytest.raises(ZeroDivisionError):
        broken.run_once()
    finish(worker(storage, go_on, appends=["results"]))
    assert sorted(told[1:]) == [(1, True), (2, True)] and told[0][1] is False


def test_a_worker_that_is_stopped_leaves_the_rest_of_its_batch(storage: Storage) -> None:
    storage.append(TOPIC, [b"1", b"2", b"3"])
    stop = Flag()
    stopped = worker(storage, lambda delivery: stop.set(), stop=stop)
    stopped.run_once()
    stopped.close()
    assert storage.topics.lag(TOPIC, GROUP) == 2
    seen = []
    finish(worker(storage, lambda delivery: seen.append(delivery.task)))
    assert len(seen) == 2


def test_slow_messages_are_acknowledged_before_their_batch_ends(storage: Storage) -> None:
    storage.append(TOPIC, [b"1", b"2", b"3"])
    left = []

    def dawdle(delivery: Delivery[int]) -> None:
        left.append(storage.topics.lag(TOPIC, GROUP))
        time.sleep(0.1)

    finish(worker(storage, dawdle, lease_seconds=0.2))
    assert left == [3, 2, 1]


def test_batches_are_no_larger_than_the_rate_allows(storage: Storage) -> None:
    storage.append(TOPIC, [b"1"] * 8)
    slow = worker(storage, lambda delivery: None, rate=InstallationRate(storage.tables, "example/members/", 2, 100))
    assert slow.run_once() == 3  # in one and a half seconds
    slow.close()


KILLED = """
import os, sys
from pathlib import Path
from threading import Event
sys.path.insert(0, sys.argv[2])
from storage import Storage
from tidegate.workers.worker import Worker

storage = Storage(Path(sys.argv[1]))

def act(delivery):
    storage.append("results", [b"done " + str(delivery.task).encode()])
    os.kill(os.getpid(), 9)

Worker(
    storage.topics, storage.tables, topic="example", group="example", decode=int, handle=act, appends=["results"],
    stop=Event(),
).run_forever()
"""


def test_a_process_that_is_killed_between_acting_and_acknowledging_is_told_to_the_next(storage: Storage) -> None:
    storage.append(TOPIC, [b"7"])
    storage.append("results", [])
    redelivered = counted("redelivered")
    arguments = [str(storage.directory), str(__file__).rpartition("/")[0]]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False, timeout=240)
    assert killed.returncode == -9
    told: list[tuple[int, bool, list[bytes]]] = []

    def finish_it(delivery: Delivery[int]) -> None:
        told.append((delivery.task, delivery.is_repeated, list(delivery.appended_before("results"))))

    following = worker(storage, finish_it, appends=["results"])
    deadline = time.monotonic() + 6 * LEASE_SECONDS  # the killed member's lease expires first
    while not told:
        assert time.monotonic() < deadline
        following.run_once(1.0)
    following.close()
    assert told == [(7, True, [b"done 7"])]
    assert counted("redelivered") == redelivered + 1
    assert storage.topics.lag(TOPIC, GROUP) == 0


def test_what_is_postponed_comes_at_its_time_and_is_no_failure(storage: Storage) -> None:
    before = {result: counted(result) for result in ("postponed", "done", "retried")}
    storage.append(TOPIC, [b"1"])
    not_before, seen, acknowledged = time.time() + 1.0, [], []

    def handle_batch(deliveries: Sequence[Delivery[int]]) -> list[Answer]:
        seen.extend((delivery.task, time.time()) for delivery in deliveries)
        is_early = time.time() < not_before
        return [Answer(Disposition.POSTPONED, not_before=not_before) if is_early else DONE for _ in deliveries]

    made: Worker[int] = Worker(
        storage.topics,
        storage.tables,
        topic=TOPIC,
        group=GROUP,
        decode=number,
        handle_batch=handle_batch,
        retries=RetryPolicy(delays=(0.0,), tries=1),
        acknowledged=acknowledged.append,
        stop=Flag(),
    )
    while not acknowledged:
        made.run_once(0.2)
    made.close()
    assert [task for task, _ in seen] == [1, 1] and seen[1][1] >= not_before
    assert {result: counted(result) - before[result] for result in before} == {"postponed": 1, "done": 1, "retried": 0}
    assert acknowledged == [1] and letters(storage) == []
