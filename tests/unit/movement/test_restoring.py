"""Bringing a version back from the trash at the moment at which its grace ends."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Conflict
from tidegate.core.pending_deletes import PendingDelete
from tidegate.core.placements import PLACEMENTS, Placement
from tidegate.core.trash import TrashRecord
from tidegate.gateway.placements import restoring
from tidegate.settings import Settings

KEPT = Placement(
    id="",
    pool="p",
    bucket="photos",
    bucket_uid="uid",
    key="k",
    version_id="null",
    location="trash",
    data_key="p/uid/0",
    size=1,
    etag="e",
    modified="",
    last_modified=0.0,
    storage_class="",
    moved_ns=1,
)
RECORD = TrashRecord("id", KEPT, 1, until=1000.0, is_claimed=True)


class Ending:
    """Tables in which the record of the trash goes right before a placement is written."""

    def __init__(self, tables: SqliteTables) -> None:
        self._tables = tables

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def compare_and_set(self, key: str, *given: Any, **options: Any) -> bool:
        if key.startswith(PLACEMENTS):
            self._tables.delete(RECORD.entry)
        return self._tables.compare_and_set(key, *given, **options)


def test_a_version_whose_record_went_meanwhile_is_not_placed_and_its_data_goes(tmp_path: Path) -> None:
    with closing(SqliteTables(tmp_path / "tables.db")) as tables, closing(FileTopics(tmp_path / "topics")) as topics:
        topics.create("deletion", 1)
        tables.put(RECORD.entry, RECORD.to_json())

        async def restore() -> None:
            gateway = SimpleNamespace(
                loop=asyncio.get_running_loop(),
                tables=Ending(tables),
                settings=Settings(),
                deletion_topics=lambda: topics,
            )
            exchange: Any = SimpleNamespace(gateway=gateway)
            admission: Any = SimpleNamespace(object_key="k", pool=None)
            view: Any = SimpleNamespace(bucket=SimpleNamespace(uid="uid", name="photos"))
            await restoring._restore(exchange, admission, view, RECORD, [])

        with pytest.raises(Conflict, match="the grace of photos/k is over"):
            asyncio.run(restore())
        assert tables.scan(PLACEMENTS) == []
        (sent,) = topics.read("deletion", 0, 0, 10)
        assert PendingDelete.from_bytes(sent.value).data_key == KEPT.data_key
