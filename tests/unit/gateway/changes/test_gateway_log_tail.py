"""What the log is known to have about a key in doubt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.adapters.file_topics import FileTopics
from tidegate.core.events import Event, EventKind
from tidegate.gateway.changes.log_tail import LogTail
from tidegate.ports import Record, Topics

TOPIC = "metadata-log"


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    opened = FileTopics(tmp_path / "topics", lease_seconds=10)
    opened.create(TOPIC, 3)
    yield opened
    opened.close()


def log(topics: Topics, key: str, version: str) -> None:
    event = Event(1, EventKind.PUT, "p", "b", "uid", key=key, version_id=version)
    topics.append(TOPIC, [Record(f"b/{key}", event.to_bytes())])


def test_events_of_a_watched_key_are_known_and_no_others(topics: Topics) -> None:
    tail = LogTail(topics, TOPIC)
    tail.catch_up()
    tail.watch("b", "k")
    log(topics, "k", "v1")
    log(topics, "other", "v2")
    assert tail.known("b", "k").may_have("v1")
    assert not tail.known("b", "k").may_have("v2")
    log(topics, "k", "v3")
    assert tail.known("b", "k").may_have("v1") and tail.known("b", "k").may_have("v3")


@pytest.mark.parametrize(("looks", "is_known"), [(0, True), (1, True), (2, True), (3, False)])
def test_what_was_logged_a_few_looks_before_the_doubt_is_known(topics: Topics, looks: int, is_known: bool) -> None:
    tail = LogTail(topics, TOPIC)
    for _ in range(5):
        tail.catch_up()
    log(topics, "k", "v1")
    for _ in range(looks):
        tail.catch_up()
    tail.watch("b", "k")
    assert tail.known("b", "k").may_have("v1") is is_known


def test_a_key_that_is_watched_again_is_read_about_anew(topics: Topics) -> None:
    tail = LogTail(topics, TOPIC)
    tail.catch_up()
    tail.watch("b", "k")
    log(topics, "k", "v1")
    assert tail.known("b", "k").may_have("v1")
    tail.keep_only([])
    for _ in range(4):
        tail.catch_up()
    tail.watch("b", "k")
    log(topics, "k", "v2")
    assert not tail.known("b", "k").may_have("v1") and tail.known("b", "k").may_have("v2")
