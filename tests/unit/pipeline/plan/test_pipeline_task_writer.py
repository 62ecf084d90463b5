"""Tasks in topics: evenly over the partitions, in order by key, and what takes long is entered and told once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.copy_tasks import CopyTask
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.routes import DATA_MOVER_TOPIC, ROUTES, TASK_TOPICS
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC, ObjectTask
from tidegate.pipeline.plan.handed_over import HANDED_OVER, HandedOver
from tidegate.pipeline.plan.task_writer import TASKS, TaskWriter, write_all

TASK = ObjectTask(
    Effect.DELETE, "owner", "photos", "k", "", "uid", "pass-1", ActionKind.EXPIRATION_DAYS, "r0", "r0/x", 1, 1
)
MOVE = replace(TASK, effect=Effect.TRANSITION, kind=ActionKind.TRANSITION_DAYS, storage_class="GLACIER")


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[FileTopics]:
    opened = FileTopics(tmp_path / "topics")
    for name in TASK_TOPICS:
        opened.create(name, 4)
    yield opened
    opened.close()


@pytest.fixture
def handed_over(tmp_path: Path) -> Iterator[HandedOver]:
    tables = SqliteTables(tmp_path / "tables.db")
    yield HandedOver(tables)
    tables.close()


def batch(*tasks: ObjectTask) -> pa.RecordBatch:
    rows = [
        {"bucket_uid": task.bucket_uid, "effect": task.effect.value, "key": f"{task.bucket_uid}/{task.key}",
         "value": task.to_bytes().decode()}
        for task in tasks
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=TASKS)


def appended(topics: FileTopics, topic: str) -> list[list[ObjectTask]]:
    """By partition."""
    return [
        [ObjectTask.from_bytes(message.value) for message in topics.read(topic, partition, 0, end + 1)]
        for partition, (_, end) in enumerate(topics.bounds(topic))
    ]


def test_every_effect_has_a_route() -> None:
    assert set(ROUTES) == set(Effect)


def test_twenty_batches_are_spread_evenly_over_the_partitions(topics: FileTopics, handed_over: HandedOver) -> None:
    tasks = [replace(TASK, key=f"{number:05d}") for number in range(20_000)]
    batches = [batch(*tasks[start : start + 10_000]) for start in (0, 10_000)]
    published = write_all(TaskWriter(topics, lambda: handed_over), batches)
    found = appended(topics, OBJECT_TASKS_TOPIC)
    assert [len(partition) for partition in found] == [5000] * 4
    assert sorted(task.key for partition in found for task in partition) == [task.key for task in tasks]
    assert (published.awaited, published.handed_over) == ({"uid": 20_000}, {})


def test_several_writers_begin_at_different_partitions(topics: FileTopics, handed_over: HandedOver) -> None:
    for first in range(6):
        TaskWriter(topics, lambda: handed_over, first=first).append(batch(replace(TASK, key=f"{first}")))
    assert [len(partition) for partition in appended(topics, OBJECT_TASKS_TOPIC)] == [2, 2, 1, 1]


def test_the_tasks_of_one_key_stay_in_one_partition_and_in_order(topics: FileTopics, handed_over: HandedOver) -> None:
    """Also where the key is longer than an append, and where it goes on in the next batch."""
    tasks = [replace(TASK, key="a", version_id=f"{number:05d}") for number in range(1500)]
    tasks += [replace(TASK, key="b", version_id=f"{number:05d}") for number in range(1200)]
    write_all(TaskWriter(topics, lambda: handed_over), [batch(*tasks[:1600]), batch(*tasks[1600:])])
    found = [partition for partition in appended(topics, OBJECT_TASKS_TOPIC) if partition]
    assert found == [tasks[:1500], tasks[1500:]]


def test_what_is_handed_over_is_told_once_until_it_has_ended(topics: FileTopics, handed_over: HandedOver) -> None:
    """One effect has its own topic, and becomes a task of the data mover."""
    writer = TaskWriter(topics, lambda: handed_over)
    first = write_all(writer, [batch(TASK, MOVE)])
    assert (first.awaited, first.handed_over) == ({"uid": 1}, {"uid": 1})
    later = replace(MOVE, pass_id="pass-2")
    again = write_all(writer, [batch(later)])
    assert (again.awaited, again.handed_over) == ({}, {"uid": 1})
    (entry,) = handed_over.under_way("uid")
    assert (entry.bucket, entry.key, entry.version_id, entry.effect, entry.pass_id) == (
        "photos", "k", "", "transitionObject", "pass-1",
    )  # fmt: skip
    consumer = topics.consumer(DATA_MOVER_TOPIC, "test-mover")
    (message,) = consumer.poll(10, 5)
    task = CopyTask.from_bytes(message.value)
    assert task == CopyTask.of(MOVE)
    assert task.object_task == MOVE
    assert (task.storage_class, task.results_topic, task.request_id) == ("GLACIER", OBJECT_TASKS_TOPIC, "pass-1")
    handed_over.end(MOVE)
    consumer.acknowledge([message])
    assert list(handed_over.under_way()) == []
    write_all(writer, [batch(later)])
    (message,) = consumer.poll(10, 5)
    assert CopyTask.from_bytes(message.value).object_task == later
    consumer.close()
    assert [len(partition) for partition in appended(topics, OBJECT_TASKS_TOPIC)] == [1, 0, 0, 0]


def test_publishing_that_is_repeated_within_a_pass_loses_nothing(handed_over: HandedOver) -> None:
    """A writer that was killed between the entry and the append."""
    assert handed_over.begin(MOVE, now_ns=1)
    assert handed_over.begin(MOVE, now_ns=2)
    assert not handed_over.begin(replace(MOVE, pass_id="pass-2"), now_ns=3)


def test_the_late_end_of_earlier_work_leaves_the_entry_of_later_work(handed_over: HandedOver) -> None:
    later = replace(MOVE, pass_id="pass-2")
    handed_over.begin(MOVE, now_ns=1)
    handed_over.end(MOVE)
    handed_over.begin(later, now_ns=2)
    handed_over.end(MOVE)
    assert [entry.pass_id for entry in handed_over.under_way()] == ["pass-2"]


def test_versions_of_one_key_are_under_way_by_themselves(handed_over: HandedOver) -> None:
    assert handed_over.begin(replace(MOVE, version_id="v1"), now_ns=1)
    assert handed_over.begin(replace(MOVE, version_id="v2", pass_id="pass-2"), now_ns=1)
    assert handed_over.begin(replace(MOVE, key="x" * 1024, pass_id="pass-2"), now_ns=1)
    assert len(list(handed_over.under_way())) == 3


def test_an_entry_whose_work_was_lost_expires(tmp_path: Path) -> None:
    tables = SqliteTables(tmp_path / "tables.db")
    short = HandedOver(tables, expires_seconds=0.001)
    assert short.begin(MOVE, now_ns=1)
    while tables.scan(HANDED_OVER):
        pass
    assert short.begin(replace(MOVE, pass_id="pass-2"), now_ns=2)
    tables.close()
