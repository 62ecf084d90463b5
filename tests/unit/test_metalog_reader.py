from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.assembly import open_topics
from tidegate.core.errors import InvalidInput
from tidegate.core.events import Event, EventKind
from tidegate.metalog_reader import MetalogReader, parse_positions, show_positions
from tidegate.ports import Record, Topics
from tidegate.settings import load


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    opened = open_topics(load(tmp_path), tmp_path)
    opened.create("log", 3)
    yield opened
    opened.close()


def append(topics: Topics, first: int, last: int, bucket: str = "b") -> None:
    events = [
        Event(ts_ns=number, operation=EventKind.PUT, pool="p", bucket=bucket, bucket_uid="u", key=f"key:{number}")
        for number in range(first, last)
    ]
    topics.append("log", [Record(event.key, event.to_bytes()) for event in events])


def everything(event: Event) -> bool:
    return True


def numbers(events: list[Event]) -> list[int]:
    return [event.ts_ns for event in events]


def test_the_tail_is_the_newest_over_all_partitions_the_oldest_first(topics: Topics) -> None:
    append(topics, 0, 100)
    reader = MetalogReader(topics, "log")
    assert numbers(reader.tail(5, everything, reader.end())) == [95, 96, 97, 98, 99]


@pytest.mark.parametrize("count", [0, 1, 100, 101])
def test_the_tail_holds_as_many_as_there_are(topics: Topics, count: int) -> None:
    append(topics, 0, 100)
    reader = MetalogReader(topics, "log")
    assert len(reader.tail(count, everything, reader.end())) == min(count, 100)


def test_the_tail_looks_back_as_far_as_it_must_for_a_filter(topics: Topics) -> None:
    append(topics, 0, 3, bucket="rare")
    append(topics, 3, 6000)
    reader = MetalogReader(topics, "log")
    assert numbers(reader.tail(2, lambda event: event.bucket == "rare", reader.end())) == [1, 2]


def test_pages_give_every_event_once(topics: Topics) -> None:
    append(topics, 0, 250)
    reader = MetalogReader(topics, "log")
    position, seen = reader.start(), []
    while True:
        events, reached = reader.page(position, 40, everything)
        assert len(events) <= 40
        seen += numbers(events)
        if reached == position:
            break
        position = parse_positions(show_positions(reached))
    assert seen == list(range(250))


def test_a_page_without_a_wanted_event_still_moves_on(topics: Topics) -> None:
    append(topics, 0, 10)
    reader = MetalogReader(topics, "log")
    events, reached = reader.page(reader.start(), 10, lambda event: False)
    assert (events, reached) == ([], reader.end())


def test_what_comes_later_is_on_the_next_page(topics: Topics) -> None:
    reader = MetalogReader(topics, "log")
    position = reader.end()
    append(topics, 7, 8)
    assert numbers(reader.page(position, 10, everything)[0]) == [7]


def test_a_position_before_what_is_still_held_begins_with_what_is_held(topics: Topics) -> None:
    append(topics, 0, 300)
    reader = MetalogReader(topics, "log")
    start = reader.start()
    for partition, end in enumerate(reader.end()):
        topics.trim("log", partition, end - 1)
    assert len(reader.page(start, 10, everything)[0]) == 3


@pytest.mark.parametrize("text", ["", "x", "1,,2", "-1", "1;2"])
def test_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_positions(text)


def test_a_position_for_another_number_of_partitions_is_refused(topics: Topics) -> None:
    reader = MetalogReader(topics, "log")
    with pytest.raises(InvalidInput, match="3 partitions"):
        reader.page((0, 0), 10, everything)
