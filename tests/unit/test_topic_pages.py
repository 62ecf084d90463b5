"""Reading topics from offsets: every record once, over pages, gaps and partitions, and the newest that are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.assembly import open_topics
from tidegate.ports import Record, Topics
from tidegate.settings import load
from tidegate.topic_pages import appended_since, newest

RECORDS = 4321


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    opened = open_topics(load(tmp_path), tmp_path)
    opened.create("t", 3)
    opened.append("t", [Record(f"key {number}", str(number).encode()) for number in range(RECORDS)])
    yield opened
    opened.close()


def numbers_since(topics: Topics, offsets: list[int]) -> list[int]:
    return sorted(int(message.value) for message in appended_since(topics, "t", offsets))


def test_everything_since_the_offsets_comes_once(topics: Topics) -> None:
    ends = [following for _, following in topics.bounds("t")]
    assert numbers_since(topics, [0, 0, 0]) == list(range(RECORDS))
    assert numbers_since(topics, ends) == []
    topics.append("t", [Record("late", str(RECORDS).encode())])
    assert numbers_since(topics, ends) == [RECORDS]


def test_what_the_topic_forgot_is_passed_over(topics: Topics) -> None:
    end = topics.bounds("t")[1][1]
    topics.trim("t", 1, end - 5)
    left = numbers_since(topics, [topics.bounds("t")[0][1], 0, topics.bounds("t")[2][1]])
    assert len(left) == 5


@pytest.mark.parametrize("count", [0, 1, 1500, RECORDS + 1])
def test_the_newest_that_are_wanted_come_the_oldest_first(topics: Topics, count: int) -> None:
    found = newest(
        topics,
        "t",
        topics.bounds("t"),
        count,
        read=int,
        wanted=lambda number: number % 2 == 0,
        moment_ns=lambda number: number,
    )
    even = list(range(0, RECORDS, 2))
    assert found == (even[-count:] if count else [])
