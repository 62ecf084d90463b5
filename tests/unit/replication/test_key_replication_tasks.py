"""What becomes of tasks for which there is nothing to do at the site, or not yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.replication.messages import Content, ReplicationTask
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.ports import Store, Tables
from tidegate.replication.key_replication import KeyReplication, Result, Site, Wanted
from tidegate.replication.site_memory import SiteMemory
from tidegate.replication.site_writer import SiteWriter

RECORD = ReplicationRecord(
    "p", "photos", "uid", "k", "v1", 1, 1.0, sites=(SiteState("other", "copies", Status.COMPLETED, 1.0),)
)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    with closing(SqliteTables(tmp_path / "tables.db")) as opened:
        yield opened


def result(
    tables: Tables,
    *,
    is_check: bool = False,
    moved_at: float = 0.0,
    earlier_ns: int = 0,
    is_last_try: bool = True,
    content: Content = Content.VERSION,
) -> Result:
    """At a site that no record names: nobody asks its store."""
    site = Site("one", cast(Store, None), cast(SiteWriter, None), SiteMemory(0.0))
    task = ReplicationTask(
        bucket="photos",
        bucket_uid="uid",
        key="k",
        version_id="v1",
        ts_ns=1,
        sites=("one",),
        is_check=is_check,
        moved_at=moved_at,
        content=content,
        earlier_ns=earlier_ns,
    )
    (outcome,) = KeyReplication(tables, site, "uid", "k", lambda: True).outcomes(
        [Wanted(task, is_last_try=is_last_try)]
    )
    return outcome.result


def test_a_backfill_waits_as_long_as_it_takes_for_the_status_that_names_the_site(tables: Tables) -> None:
    tables.put(RECORD.entry, RECORD.to_json())
    assert result(tables, is_check=True) is Result.BLOCKED


def test_there_is_nothing_to_do_for_a_version_without_a_record_for_a_replica_or_for_a_site_it_was_not_sent_to(
    tables: Tables,
) -> None:
    assert result(tables, is_check=True) is Result.DONE
    tables.put(RECORD.entry, RECORD.to_json())
    assert result(tables, is_check=False) is Result.DONE
    tables.put(RECORD.entry, replace(RECORD, is_replica=True, sites=()).to_json())
    assert result(tables, is_check=True) is Result.DONE


def test_a_version_whose_bucket_changes_waits_until_its_record_names_the_new_one(tables: Tables) -> None:
    record = RECORD.with_state(SiteState("one", "former", Status.COMPLETED, 50.0, "c"))
    tables.put(record.entry, record.to_json())
    assert result(tables, is_check=True, moved_at=60.0) is Result.BLOCKED


def test_a_version_that_was_brought_back_is_tried_until_it_has_a_record_again(tables: Tables) -> None:
    assert result(tables, is_check=False, earlier_ns=1, is_last_try=False) is Result.RETRY
    assert result(tables, is_check=False, earlier_ns=1) is Result.DONE


def test_tags_are_not_brought_to_a_version_that_has_failed(tables: Tables) -> None:
    record = RECORD.with_state(SiteState("one", "copies", Status.FAILED, 50.0))
    tables.put(record.entry, record.to_json())
    assert result(tables, content=Content.TAGS) is Result.DONE
