"""Retry of failures, on real tables and topics: the four steps, and two operators who press at once.

The versions here are delete markers, which are looked for in no store.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from failed_versions import FAILED_AT, fail, make_bucket, store, with_status

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Refused, Unavailable
from tidegate.core.replication.failed_keys import FailedKey, listed_value
from tidegate.core.replication.messages import REPLICATION_TOPIC, STATUS_TOPIC, ReplicationTask, StatusUpdate
from tidegate.core.replication.records import Status
from tidegate.lifecycle.acting.stores import Stores
from tidegate.ports import Record, Store, StoredHead, Tables, Topics
from tidegate.replication.failure_retry import FailureRetry, finish_cut_off
from tidegate.replication.failures import PAGE, FailureReader, Selection
from tidegate.topic_pages import appended_since

NOW = 1_700_001_000.0


class BreakingTopics(FileTopics):
    """As when the server of a topic goes away between two steps."""

    broken = ""

    def append(self, topic: str, records: Sequence[Record]) -> None:
        if topic == self.broken:
            raise Unavailable(f"{topic} cannot be written")
        super().append(topic, records)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    made = SqliteTables(tmp_path / "tables.db")
    make_bucket(made, "photos", "uid")
    yield made
    made.close()


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[BreakingTopics]:
    made = BreakingTopics(tmp_path / "topics", lease_seconds=30)
    yield made
    made.close()


def no_stores() -> Stores:
    raise AssertionError("a delete marker is looked for in no store")


def retrying(tables: Tables, topics: Topics) -> FailureRetry:
    return FailureRetry(tables, topics, no_stores)


def sent(topics: Topics) -> tuple[list[StatusUpdate], list[ReplicationTask]]:
    def values(topic: str) -> list[bytes]:
        return [message.value for message in appended_since(topics, topic, [0] * 4)] if topic in topics.names() else []

    updates = [StatusUpdate.from_bytes(value) for value in values(STATUS_TOPIC)]
    return updates, [ReplicationTask.from_bytes(value) for value in values(REPLICATION_TOPIC)]


def failures(tables: Tables, count: int) -> list[FailedKey]:
    made = [FailedKey("photos", f"{number:05}:é\n", "v1", "paris") for number in range(count)]
    for failed in made:
        fail(tables, failed)
    return made


def test_a_retry_makes_the_version_pending_queues_it_and_takes_it_off_the_list(
    tables: Tables, topics: BreakingTopics
) -> None:
    failed = failures(tables, 1)[0]
    retried = retrying(tables, topics).retry([failed], now=NOW)
    assert [failure.failed for failure in retried] == [failed]
    updates, tasks = sent(topics)
    of_version = ("photos", "uid", failed.key, "v1")
    assert [(u.bucket, u.bucket_uid, u.key, u.version_id) for u in updates] == [of_version]
    assert [(u.site, u.status, u.at, u.is_retry) for u in updates] == [("paris", Status.PENDING, NOW, True)]
    assert [(t.bucket, t.bucket_uid, t.key, t.version_id) for t in tasks] == [of_version]
    assert [(t.ts_ns, t.sites) for t in tasks] == [(retried[0].record.ts_ns, ("paris",))]
    assert tables.get(failed.entry) is None


def test_what_has_not_failed_is_left_out_and_nothing_changes(tables: Tables, topics: BreakingTopics) -> None:
    pending, arrived, gone = failures(tables, 3)
    for failed, status in ((pending, Status.PENDING), (arrived, Status.COMPLETED)):
        store(tables, with_status(fail(tables, failed), "paris", status, 1.0))
    tables.delete(fail(tables, gone).entry)
    unknown = [
        FailedKey("nowhere", "a", "v1", "paris"),
        FailedKey("photos", "a", "v1", "paris"),
        pending._replace(site="oslo"),
        pending._replace(version_id="v2"),
    ]
    before = tables.scan("b") + tables.scan("r")
    assert retrying(tables, topics).retry([pending, arrived, gone, *unknown], now=NOW) == []
    assert tables.scan("b") + tables.scan("r") == before
    assert sent(topics) == ([], [])


class OddSource:
    """Stores of the pool in which one version is gone, one cannot be looked at, and one does not answer."""

    def of_pool(self, pool: str) -> Store:
        return cast(Store, self)

    def head(self, bucket: str, key: str, version_id: str) -> StoredHead | None:
        if key == "gone":
            return None
        raise {"encrypted": Refused("400 InvalidRequest"), "away": Unavailable("no answer")}[key]

    def close(self) -> None:
        pass


def test_what_cannot_be_looked_at_is_retried_with_the_others(tables: Tables, topics: BreakingTopics) -> None:
    wanted = [FailedKey("photos", key, "v1", "paris") for key in ("encrypted", "gone", "away")]
    for failed in wanted:
        store(tables, replace(fail(tables, failed), is_marker=False))
    retry = FailureRetry(tables, topics, lambda: cast(Stores, OddSource()))
    assert [failure.failed.key for failure in retry.retry(wanted, now=NOW)] == ["encrypted", "away"]


def test_what_is_named_twice_is_sent_once(tables: Tables, topics: BreakingTopics) -> None:
    failed = failures(tables, 1)[0]
    assert len(retrying(tables, topics).retry([failed, failed], now=NOW)) == 1
    assert retrying(tables, topics).retry([failed], now=NOW) == []
    assert [len(messages) for messages in sent(topics)] == [1, 1]


def test_of_two_operators_who_press_at_once_each_version_is_sent_by_one(tables: Tables, topics: BreakingTopics) -> None:
    wanted = failures(tables, 200)
    together = threading.Barrier(4)

    def press(_: int) -> list[FailedKey]:
        together.wait()
        return [failure.failed for failure in retrying(tables, topics).retry(wanted, now=NOW)]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(press, range(4)))
    assert sorted(failed for answer in answers for failed in answer) == wanted
    updates, tasks = sent(topics)
    assert sorted(update.key for update in updates) == sorted(task.key for task in tasks)
    assert [len(updates), len(tasks)] == [200, 200]


def test_a_failure_that_comes_back_before_it_was_taken_off_the_list_stays_there(
    tables: Tables, topics: BreakingTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, other = failures(tables, 2)
    for failed in (back, other):
        tables.put(failed.entry, listed_value(FAILED_AT))
    append = topics.append

    def fails_at_once(topic: str, records: Sequence[Record]) -> None:
        append(topic, records)
        if topic == REPLICATION_TOPIC:
            tables.put(back.entry, listed_value(FAILED_AT + 1))

    monkeypatch.setattr(topics, "append", fails_at_once)
    assert len(retrying(tables, topics).retry([back, other], now=NOW)) == 2
    assert (tables.get(back.entry), tables.get(other.entry)) == (listed_value(FAILED_AT + 1), None)


def test_a_retry_from_a_time_to_come_is_taken_for_cut_off(tables: Tables, topics: BreakingTopics) -> None:
    failed = failures(tables, 1)[0]
    topics.broken = REPLICATION_TOPIC
    with pytest.raises(Unavailable):
        retrying(tables, topics).retry([failed], now=NOW + 3600)
    topics.broken = ""
    assert finish_cut_off(tables, topics, now=NOW) == 1
    assert tables.get(failed.entry) is None


def test_a_version_that_fails_once_more_can_be_retried_at_once(tables: Tables, topics: BreakingTopics) -> None:
    failed = failures(tables, 1)[0]
    retrying(tables, topics).retry([failed], now=NOW)
    again = with_status(fail(tables, failed), "paris", Status.FAILED, FAILED_AT + 1)
    store(tables, again)
    assert len(retrying(tables, topics).retry([failed], now=NOW)) == 1


def test_what_has_expired_from_the_list_can_still_be_retried(tables: Tables, topics: BreakingTopics) -> None:
    failed = failures(tables, 1)[0]
    tables.delete(failed.entry)
    assert len(retrying(tables, topics).retry([failed], now=NOW)) == 1


@pytest.mark.parametrize(("broken", "updates"), [(STATUS_TOPIC, 0), (REPLICATION_TOPIC, 1)])
def test_a_retry_that_was_cut_off_is_finished_by_others(
    tables: Tables, topics: BreakingTopics, broken: str, updates: int
) -> None:
    failed = failures(tables, 1)[0]
    topics.broken = broken
    with pytest.raises(Unavailable):
        retrying(tables, topics).retry([failed], now=NOW)
    assert tables.get(failed.entry) is not None
    assert [len(messages) for messages in sent(topics)] == [updates, 0]
    topics.broken = ""
    assert retrying(tables, topics).retry([failed], now=NOW + 1) == []  # it is under way
    assert finish_cut_off(tables, topics, now=NOW + 60) == 0
    assert finish_cut_off(tables, topics, now=NOW + 61) == 1
    assert [len(messages) for messages in sent(topics)] == [updates + 1, 1]
    assert tables.get(failed.entry) is None
    assert finish_cut_off(tables, topics, now=NOW + 10**6) == 0


def test_all_that_match_are_retried_page_by_page(tables: Tables, topics: BreakingTopics) -> None:
    wanted = failures(tables, PAGE + 5)
    other = FailedKey("photos", "other", "v1", "oslo")
    fail(tables, other)
    sizes, marker = [], ""
    while not sizes or marker:
        page = retrying(tables, topics).retry_page(Selection(site="paris"), marker, now=NOW)
        sizes.append(len(page.failures))
        marker = page.next_marker
    assert sum(sizes) == len(wanted)
    assert max(sizes) == PAGE
    left = FailureReader(tables).page(Selection())
    assert [failure.failed for failure in left.failures] == [other]
