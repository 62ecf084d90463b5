"""Dead letters: read, sent back, discarded, and not shown twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import InvalidInput, NotFound
from tidegate.dead_letters import DeadLetters
from tidegate.ports import Record


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[FileTopics]:
    made = FileTopics(tmp_path / "topics")
    made.create("t", 1)
    yield made
    made.close()


@pytest.fixture
def letters(tmp_path: Path, topics: FileTopics) -> Iterator[DeadLetters]:
    tables = SqliteTables(tmp_path / "tables.db")
    yield DeadLetters(tables, topics, "t", keep_seconds=60)
    tables.close()


def give_up(topics: FileTopics, *values: bytes) -> None:
    topics.append("t", [Record("key", value) for value in values])
    consumer = topics.consumer("t", "g")
    for message in consumer.poll(100, 5.0):
        consumer.dead_letter(message, f"no way for {message.value.decode()}")
    consumer.close()


def test_without_any_letter_there_is_nothing(letters: DeadLetters) -> None:
    assert letters.open(10) == [] and letters.count() == 0
    with pytest.raises(NotFound):
        letters.get("0:0")


def test_a_letter_tells_what_was_given_up_and_why(topics: FileTopics, letters: DeadLetters) -> None:
    give_up(topics, b"one", b"two")
    first, second = letters.open(10)
    assert (first.id, first.value, first.reason, first.attempt, first.group) == (
        "0:0",
        b"one",
        "no way for one",
        1,
        "g",
    )
    assert second.origin == "t/0/1"
    assert letters.open(1) == [first]
    assert letters.get("0:1") == second
    assert letters.count() == 2


def test_a_letter_that_was_sent_back_is_in_its_topic_and_not_listed(topics: FileTopics, letters: DeadLetters) -> None:
    give_up(topics, b"one", b"two")
    letters.retry("0:0")
    assert [letter.id for letter in letters.open(10)] == ["0:1"] and letters.count() == 1
    assert topics.read("t", 0, 2, 1)[0].value == b"one"
    with pytest.raises(NotFound, match="retried already"):
        letters.retry("0:0")


def test_a_discarded_letter_is_not_listed_and_sent_nowhere(topics: FileTopics, letters: DeadLetters) -> None:
    give_up(topics, b"one")
    letters.discard("0:0")
    assert letters.open(10) == [] and letters.count() == 0
    assert topics.bounds("t") == [(0, 1)]
    with pytest.raises(NotFound, match="discarded already"):
        letters.get("0:0")


def test_the_count_does_not_miss_letters_when_older_ones_were_trimmed(topics: FileTopics, letters: DeadLetters) -> None:
    give_up(topics, b"one", b"two", b"three")
    letters.discard("0:0")
    topics.trim("t.dead-letters", 0, 1)
    assert letters.count() == 2


@pytest.mark.parametrize("name", ["", "0", "a:b", "-1:0", "0:-1"])
def test_what_names_no_letter_is_refused(letters: DeadLetters, name: str) -> None:
    with pytest.raises(InvalidInput):
        letters.get(name)


@pytest.mark.parametrize("name", ["0:7", "3:0"])
def test_a_letter_that_is_not_there_is_not_found(topics: FileTopics, letters: DeadLetters, name: str) -> None:
    give_up(topics, b"one")
    with pytest.raises(NotFound):
        letters.get(name)
