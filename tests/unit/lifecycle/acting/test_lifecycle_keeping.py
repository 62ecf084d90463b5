"""What is deleted is kept before, where it is to be kept; without that nothing is deleted."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set
from memory_store import MemoryStore

from tidegate.core.errors import NotFound, Refused, TidegateError, Unavailable
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.tasks import ObjectTask, Outcome
from tidegate.core.listings import ListedVersion
from tidegate.lifecycle.acting import bucket_actions
from tidegate.lifecycle.acting.assignments import Assignment, Result
from tidegate.lifecycle.acting.bucket_actions import Actor


class Keeper:
    def __init__(self, store: MemoryStore, **refused: Result) -> None:
        self._store = store
        self._refused = refused
        self.kept: list[tuple[str, bool]] = []
        self.forgotten: list[str] = []

    def keep(self, tasks: Sequence[ObjectTask]) -> dict[int, Result]:
        for task in tasks:
            self.kept.append((task.key, self._store.look(task.bucket, task.key) is not None))
        return {number: self._refused[task.key] for number, task in enumerate(tasks) if task.key in self._refused}

    def forget(self, task: ObjectTask) -> None:
        self.forgotten.append(task.key)


@pytest.fixture
def store(place: LifecyclePlace) -> MemoryStore:
    store: MemoryStore = place.pool()
    place.bucket("photos", rule_set(DAYS))
    return store


def task(listed: ListedVersion, *, etag: str = "") -> ObjectTask:
    return ObjectTask(
        effect=Effect.DELETE, owner="", bucket="photos", key=listed.key, version_id="", bucket_uid="uid", pass_id="p",
        kind=ActionKind.EXPIRATION_DAYS, rule_id="", action_id="", due_ns=0, became_due_ns=0,
        last_modified=listed.modified, etag=etag or listed.etag, size=listed.size,
    )  # fmt: skip


def acted(store: MemoryStore, keeper: Keeper, *tasks: ObjectTask) -> list[Outcome]:
    actor = Actor(store, "photos", now_ns=time.time_ns(), pause=lambda seconds: True, keeper=keeper)  # type: ignore[arg-type]
    return [result.outcome for result in actor.act([Assignment(each) for each in tasks])]


def test_objects_are_kept_while_they_are_still_there(store: MemoryStore) -> None:
    keeper = Keeper(store)
    tasks = [task(store.put(key, 1000.0)) for key in ("a", "b")]
    assert acted(store, keeper, *tasks) == [Outcome.DONE] * 2
    assert keeper.kept == [("a", True), ("b", True)] and keeper.forgotten == []
    assert store.look("photos", "a") is None


def test_what_cannot_be_kept_is_not_deleted(store: MemoryStore) -> None:
    keeper = Keeper(store, a=Result(Outcome.BLOCKED), b=Result(Outcome.RETRY_LATER, waits_for="trash"))
    tasks = [task(store.put(key, 1000.0)) for key in ("a", "b", "c")]
    assert acted(store, keeper, *tasks) == [Outcome.BLOCKED, Outcome.RETRY_LATER, Outcome.DONE]
    assert store.look("photos", "a") is not None and store.look("photos", "b") is not None
    assert store.look("photos", "c") is None


def test_what_was_kept_for_an_object_that_was_replaced_is_forgotten(store: MemoryStore) -> None:
    keeper = Keeper(store)
    judged = task(store.put("a", 1000.0))
    store.put("a", 2000.0, etag="other")
    assert acted(store, keeper, judged) == [Outcome.NOOP_RESOLVED]
    assert keeper.forgotten == ["a"] and store.look("photos", "a") is not None


@pytest.mark.parametrize("later", [Refused("Forbidden"), NotFound("there is no bucket")])
def test_what_was_kept_stays_when_an_attempt_was_made_whose_answer_was_lost(
    store: MemoryStore, later: TidegateError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_actions, "_FIRST_PAUSE_SECONDS", 0.0)
    keeper = Keeper(store)
    judged = task(store.put("a", 1000.0))
    store.trouble = [("after", Unavailable("no answer")), ("before", later)]
    assert acted(store, keeper, judged) in ([Outcome.BLOCKED], [Outcome.NOOP_RESOLVED])
    assert store.look("photos", "a") is None and keeper.forgotten == []
