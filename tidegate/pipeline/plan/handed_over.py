"""The table of work that was handed over: what takes long, and what no pass waits for.

A task is entered before it is published, and taken out when it has ended. While its entry stands, later passes plan the
same and publish it no more. An entry whose work was lost expires, so that nothing is left undone for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from tidegate.core.codec import JsonRecord
from tidegate.core.lifecycle.tasks import ObjectTask
from tidegate.ports import Tables

HANDED_OVER = "lifecycle/handed-over/"
# Longer than any work that is still under way.
EXPIRES_SECONDS = 7 * 86_400.0
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class HandedOverTask(JsonRecord):
    """Since when the pass `pass_id` has had this done to a version."""

    bucket: str
    key: str
    version_id: str
    effect: str
    pass_id: str
    since_ns: int

    @classmethod
    def of(cls, task: ObjectTask, since_ns: int) -> Self:
        return cls(task.bucket, task.key, task.version_id, task.effect.value, task.pass_id, since_ns)


class HandedOver:
    def __init__(self, tables: Tables, *, expires_seconds: float = EXPIRES_SECONDS) -> None:
        self._tables = tables
        self._expires_seconds = expires_seconds

    def begin(self, task: ObjectTask, *, now_ns: int) -> bool:
        """Enters the task. False if the same is under way already. A pass that repeats a part of its publishing finds
        its own entry, and publishes once more: a task may come twice."""
        text = HandedOverTask.of(task, now_ns).to_json()
        if self._tables.put_if_absent(_entry(task), text, expires_in=self._expires_seconds):
            return True
        known = self._tables.get(_entry(task))
        return known is not None and HandedOverTask.from_json(known).pass_id == task.pass_id

    def end(self, task: ObjectTask) -> None:
        """Takes the task out, however it ended. The entry of another pass stays: it is of later work."""
        known = self._tables.get(_entry(task))
        if known is not None and HandedOverTask.from_json(known).pass_id == task.pass_id:
            self._tables.compare_and_set(_entry(task), known, None)

    def under_way(self, bucket_uid: str = "") -> Iterator[HandedOverTask]:
        """What is under way in the bucket, or everywhere."""
        prefix, after = f"{HANDED_OVER}{bucket_uid}", None
        while page := self._tables.scan(prefix, after=after, limit=_PAGE):
            yield from (HandedOverTask.from_json(text) for _, text in page)
            after = page[-1][0]


def _entry(task: ObjectTask) -> str:
    """By a hash: a key may be longer than the key of an entry."""
    identity = "\0".join((task.effect.value, task.key, task.version_id))
    return f"{HANDED_OVER}{task.bucket_uid}/{sha256(identity.encode()).hexdigest()}"
