"""The log writer: batches, failures that reach everybody who waits, and an orderly end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import uvloop

from tidegate.adapters.file_topics import FileTopics
from tidegate.core.errors import InvalidInput, NotFound, TidegateError, Unavailable
from tidegate.gateway.changes.log_writer import NoLogWriter, TopicLogWriter
from tidegate.ports import Record, Topics

TOPIC = "metadata-log"


class Gate:
    """A topic's writer that can be stopped in front of the real one, to see what gathers behind it."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.open = threading.Event()
        self.open.set()
        self.batches: list[int] = []
        self._reached = threading.Event()

    async def reached(self) -> None:
        """Returns when a batch stands before the gate."""
        await asyncio.get_running_loop().run_in_executor(None, self._reached.wait, 30)

    def append(self, topic: str, records: Sequence[Record]) -> None:
        self.batches.append(len(records))
        self._reached.set()
        self.open.wait(30)
        self._topics.append(topic, records)


def with_log_writer(
    tmp_path: Path, work: Callable[[TopicLogWriter, Gate], object], *, create: bool = True
) -> list[bytes]:
    """Runs `work`, closes the log writer and returns what is in the topic."""
    topics = open_topics(tmp_path)
    if create:
        topics.create(TOPIC, 1)
    gate = Gate(topics)

    async def main() -> None:
        log_writer = TopicLogWriter(gate, TOPIC, asyncio.get_running_loop())  # type: ignore[arg-type]
        await work(log_writer, gate)  # type: ignore[misc]
        await log_writer.close()

    uvloop.run(main())
    found = [message.value for message in topics.read(TOPIC, 0, 0, 100_000)] if create else []
    topics.close()
    return found


def open_topics(tmp_path: Path) -> Topics:
    return FileTopics(tmp_path / "topics", lease_seconds=10)


async def appended(log_writer: TopicLogWriter, *values: bytes) -> TidegateError | None:
    written: asyncio.Future[TidegateError | None] = asyncio.get_running_loop().create_future()
    log_writer.append([Record("k", value) for value in values], written.set_result)
    return await written


def test_records_are_in_the_topic_when_the_caller_hears_of_it(tmp_path: Path) -> None:
    seen: list[int] = []

    async def work(log_writer: TopicLogWriter, _: Gate) -> None:
        assert await appended(log_writer, b"1", b"2") is None
        reader = open_topics(tmp_path)
        seen.append(len(reader.read(TOPIC, 0, 0, 10)))
        reader.close()

    assert with_log_writer(tmp_path, work) == [b"1", b"2"]
    assert seen == [2]


def test_what_comes_while_a_batch_is_written_forms_one_next_batch_in_order(tmp_path: Path) -> None:
    async def work(log_writer: TopicLogWriter, gate: Gate) -> None:
        gate.open.clear()
        first = asyncio.create_task(appended(log_writer, b"0"))
        await gate.reached()
        rest = [asyncio.create_task(appended(log_writer, b"%d" % number)) for number in range(1, 40)]
        await asyncio.sleep(0)
        gate.open.set()
        assert await asyncio.gather(first, *rest) == [None] * 40
        assert gate.batches == [1, 39]

    assert with_log_writer(tmp_path, work) == [b"%d" % number for number in range(40)]


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    async def work(log_writer: TopicLogWriter, gate: Gate) -> None:
        gate.open.clear()
        tasks = [asyncio.create_task(appended(log_writer, *[b"x"] * 1000)) for _ in range(6)]
        await gate.reached()
        gate.open.set()
        await asyncio.gather(*tasks)
        assert max(gate.batches) <= 2000

    assert len(with_log_writer(tmp_path, work)) == 6000


def test_a_failure_reaches_everybody_in_the_batch_and_the_next_batch_is_tried(tmp_path: Path) -> None:
    async def work(log_writer: TopicLogWriter, gate: Gate) -> None:
        failures = await asyncio.gather(*(appended(log_writer, b"%d" % number) for number in range(5)))
        assert all(isinstance(failure, NotFound) for failure in failures)
        gate._topics.create(TOPIC, 1)
        assert await appended(log_writer, b"later") is None
        assert [message.value for message in gate._topics.read(TOPIC, 0, 0, 10)] == [b"later"]

    with_log_writer(tmp_path, work, create=False)


def test_a_log_whose_disk_is_gone_is_told_as_unavailable(tmp_path: Path) -> None:
    async def work(log_writer: TopicLogWriter, gate: Gate) -> None:
        gate._topics = open_topics(tmp_path / "away")
        gate._topics.create(TOPIC, 1)
        gate._topics.close()
        assert isinstance(await appended(log_writer, b"lost"), Unavailable)

    (tmp_path / "away").mkdir()
    assert with_log_writer(tmp_path, work) == []


def test_closing_writes_what_is_queued_first(tmp_path: Path) -> None:
    answers: list[TidegateError | None] = []

    async def work(log_writer: TopicLogWriter, gate: Gate) -> None:
        gate.open.clear()
        for number in range(30):
            log_writer.append([Record("k", b"%d" % number)], answers.append)
        asyncio.get_running_loop().call_later(0.05, gate.open.set)

    assert with_log_writer(tmp_path, work) == [b"%d" % number for number in range(30)]
    assert answers == [None] * 30


def test_without_a_log_everything_is_done_at_once() -> None:
    answers: list[TidegateError | None] = []
    NoLogWriter().append([Record("k", b"v")], answers.append)
    assert answers == [None]


def test_it_is_told_when_the_log_cannot_be_written_and_not_when_a_batch_is_wrong(tmp_path: Path) -> None:
    class Broken:
        error: TidegateError = Unavailable("the disk is full")

        def append(self, topic: str, records: Sequence[Record]) -> None:
            raise self.error

    async def main() -> None:
        topics = Broken()
        loop = asyncio.get_running_loop()
        log_writer = TopicLogWriter(topics, TOPIC, loop, failed=told.append)  # type: ignore[arg-type]
        assert await appended(log_writer, b"1") is topics.error
        topics.error = InvalidInput("the record is too large")
        assert await appended(log_writer, b"2") is topics.error
        await log_writer.close()

    told: list[str] = []
    uvloop.run(main())
    assert told == ["the disk is full"]
