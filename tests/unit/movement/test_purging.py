"""Purging a bucket whose versions are kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from memory_store import MemoryStore

from tidegate.adapters.file_topics import FileTopics
from tidegate.core.lifecycle.tasks import ObjectTask
from tidegate.core.records import Bucket
from tidegate.core.xml import MOST_DELETES
from tidegate.lifecycle.acting.assignments import Result
from tidegate.movement.deletion_audit import DeletionAudit
from tidegate.movement.purge import Purge
from tidegate.movement.topics import create_deletion_topics
from tidegate.settings import Settings

BUCKET = Bucket("photos", "p", "uid", "none", 1.0)


class Keeper:
    """Remembers all that it has kept."""

    def __init__(self) -> None:
        self.kept: set[str] = set()

    def keep(self, tasks: Sequence[ObjectTask]) -> dict[int, Result]:
        self.kept.update(task.key for task in tasks)
        return {}

    def forget(self, task: ObjectTask) -> None:
        raise AssertionError("all is deleted")


def test_no_keeper_remembers_more_than_one_batch(tmp_path: Path) -> None:
    store, made = MemoryStore(), list[Keeper]()
    keys = {store.put(f"{number:04}", 1000.0).key for number in range(2 * MOST_DELETES + 1)}

    def keeper() -> Keeper:
        made.append(Keeper())
        return made[-1]

    with closing(FileTopics(tmp_path / "topics")) as topics:
        create_deletion_topics(topics, Settings().deletion)
        purge = Purge(store, BUCKET, DeletionAudit(topics), keeper=keeper)  # type: ignore[arg-type]
        counts = purge.run("", dry_run=False, progress=lambda counts: None)
    assert (counts.deleted, counts.failed, store.versions) == (len(keys), 0, {})
    assert set().union(*(each.kept for each in made)) == keys
    assert max(len(each.kept) for each in made) <= MOST_DELETES
