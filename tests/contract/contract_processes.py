"""What the contract suites do in other processes, and how they start and end them.

Every function that runs in a process of its own takes a connection to the test and the address of
the tables or topics under test.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from contract_groups import PATIENCE_SECONDS, gather

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.kafka_topics import KafkaTopics
from tidegate.adapters.redis_tables import RedisTables
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.ports import Record, Tables, Topics

_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class TablesAddress:
    kind: str
    where: str
    namespace: str = ""

    def open(self) -> Tables:
        if self.kind == "redis":
            return RedisTables(self.where, namespace=self.namespace)
        return SqliteTables(Path(self.where))


@dataclass(frozen=True)
class TopicsAddress:
    kind: str
    where: str
    prefix: str = ""
    lease_seconds: float = 2.0

    def open(self) -> Topics:
        if self.kind == "kafka":
            return KafkaTopics(self.where, prefix=self.prefix, lease_seconds=self.lease_seconds)
        return FileTopics(Path(self.where), lease_seconds=self.lease_seconds)


class Child:
    """A process that the test talks to."""

    def __init__(self, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.line, theirs = _processes.Pipe()
        self.process = _processes.Process(target=target, args=(theirs, *arguments))
        self.process.start()
        theirs.close()

    def hear(self) -> Any:
        """What the process says next."""
        assert self.line.poll(PATIENCE_SECONDS), "the process says nothing"
        return self.line.recv()

    def say(self, what: Any) -> None:
        self.line.send(what)

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid
        os.kill(self.process.pid, number)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


@contextmanager
def children(*starts: tuple[Any, ...]) -> Iterator[list[Child]]:
    """One process for each (function, argument, ...); none is left when the block ends."""
    started: list[Child] = []
    try:
        for target, *arguments in starts:
            started.append(Child(target, tuple(arguments)))
        yield started
    finally:
        for child in started:
            child.end()


# What runs in other processes


def claim_keys(line: Connection, address: TablesAddress, name: str, keys: list[str]) -> None:
    """Tries to be the first at every key; tells which it won."""
    tables = address.open()
    line.send("ready")
    line.recv()
    line.send([key for key in keys if tables.put_if_absent(key, name, expires_in=60)])


def count_up(line: Connection, address: TablesAddress, key: str, times: int) -> None:
    tables = address.open()
    line.send("ready")
    line.recv()
    for _ in range(times):
        while True:
            seen = tables.get(key)
            if tables.compare_and_set(key, seen, str(int(seen or "0") + 1)):
                break
    line.send("done")


def append_batches(line: Connection, address: TopicsAddress, topic: str, name: str, batches: int, size: int) -> None:
    """Appends `batches` batches of `size` records, numbered through, all with the key `name`."""
    topics = address.open()
    line.send("ready")
    line.recv()
    for batch in range(batches):
        numbers = range(batch * size, (batch + 1) * size)
        topics.append(topic, [Record(name, b"%s:%d" % (name.encode(), number)) for number in numbers])
    topics.close()
    line.send("done")


def hold_messages(line: Connection, address: TopicsAddress, topic: str, group: str, count: int) -> None:
    """Polls `count` messages, and acknowledges them only when told to."""
    topics = address.open()
    consumer = topics.consumer(topic, group)
    messages = gather(consumer, count)
    line.send([(message.partition, message.offset) for message in messages])
    line.recv()
    consumer.acknowledge(messages)
    consumer.close()
    topics.close()
    line.send("acknowledged")


def acknowledge_some(line: Connection, address: TopicsAddress, topic: str, group: str, count: int) -> None:
    """Polls two messages more than it acknowledges, and waits."""
    topics = address.open()
    consumer = topics.consumer(topic, group)
    consumer.acknowledge(gather(consumer, count + 2)[:count])
    line.send("acknowledged")
    line.recv()


def retry_first(line: Connection, address: TopicsAddress, topic: str, group: str, not_before: float) -> None:
    """Puts the first message off, and waits."""
    topics = address.open()
    consumer = topics.consumer(topic, group)
    [message] = gather(consumer, 1)
    consumer.retry_later(message, not_before=not_before)
    line.send((message.partition, message.offset))
    line.recv()


def work_until_told(line: Connection, address: TopicsAddress, topic: str, group: str) -> None:
    """Acknowledges what comes and tells its value; ends when the test says so."""
    topics = address.open()
    consumer = topics.consumer(topic, group)
    while not line.poll(0):
        messages = consumer.poll(20, 0.1)
        consumer.acknowledge(messages)
        if messages:
            line.send([(message.partition, message.value) for message in messages])
    consumer.close()
    topics.close()
    line.send(None)
