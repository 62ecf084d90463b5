"""What operators see of replication: figures, metrics, gauges, versions and pauses, on real tables and topics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from failed_versions import WRITTEN, make_bucket, record_of, store

from tidegate import metrics
from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import InvalidInput, NotFound, Unavailable
from tidegate.core.lifecycle.rules import Filter
from tidegate.core.locations import EVERY_SITE, Location
from tidegate.core.replication.counts import (
    INTERVAL_SECONDS,
    ArrivedCount,
    ArrivedKey,
    IntervalCount,
    IntervalKey,
    interval_of,
)
from tidegate.core.replication.failed_keys import FailedKey
from tidegate.core.replication.messages import POPULATOR_GROUP, REPLICATION_AUDIT_TOPIC, StatusUpdate
from tidegate.core.replication.metric_views import Metric
from tidegate.core.replication.records import SiteState, Status
from tidegate.core.replication.rules import REPLICATION, ReplicationRule, ReplicationRules
from tidegate.ports import Record, Store, Tables
from tidegate.replication.desk import ReplicationDesk
from tidegate.replication.gauges import ReplicationGauges
from tidegate.replication.queries import ReplicationQueries
from tidegate.replication.topics import create_replication_topics, send

NOW = WRITTEN + 100


def location(name: str) -> Location:
    return Location(name, "http://127.0.0.1:1", "bucket", "KEY", "sealed", 1.0)


def no_store(site: str) -> Store:
    raise Unavailable(f"{site} does not answer")


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    made = SqliteTables(tmp_path / "tables.db")
    make_bucket(made, "photos", "uid")
    make_bucket(made, "films", "other")
    yield made
    made.close()


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[FileTopics]:
    made = FileTopics(tmp_path / "topics", lease_seconds=30)
    yield made
    made.close()


@pytest.fixture
def desk(tables: Tables, topics: FileTopics) -> ReplicationDesk:
    return ReplicationDesk(tables, topics, lambda: [location("oslo"), location("paris")], no_store)


def replicated(
    tables: Tables, key: str, statuses: dict[str, Status], *, bucket: str = "photos", uid: str = "uid", size: int = 7
) -> None:
    states = [SiteState(site, "replicas", status, WRITTEN) for site, status in statuses.items()]
    store(tables, record_of(FailedKey(bucket, key, "v1", "-"), *states, uid=uid, size=size))


def test_the_status_tells_by_site_what_is_pending_completed_and_failed(tables: Tables, desk: ReplicationDesk) -> None:
    replicated(tables, "a", {"oslo": Status.PENDING, "paris": Status.FAILED}, size=10)
    replicated(tables, "b", {"oslo": Status.PENDING, "paris": Status.COMPLETED}, size=5)
    replicated(tables, "a", {"oslo": Status.FAILED}, bucket="films", uid="other", size=1)
    for uid, partition, count in (("uid", 0, 1), ("uid", 3, 2), ("other", 0, 4)):
        tables.put(ArrivedKey("paris", uid, partition).entry, ArrivedCount(count, count * 100).to_json())
    told = {view.site: view for view in desk.status(now=NOW)}
    oslo, paris = told["oslo"], told["paris"]
    assert (oslo.pending, oslo.pending_bytes, oslo.failed, oslo.failed_bytes, oslo.completed) == (2, 15, 1, 1, 0)
    assert (paris.pending, paris.failed, paris.completed, paris.completed_bytes) == (0, 1, 7, 700)
    assert oslo.oldest_pending_at is not None
    assert oslo.oldest_pending_at.timestamp() == pytest.approx(WRITTEN)
    assert paris.oldest_pending_at is None
    of_photos = {view.site: (view.pending, view.completed, view.failed) for view in desk.status("photos", now=NOW)}
    assert of_photos == {"oslo": (2, 0, 0), "paris": (0, 3, 1)}
    with pytest.raises(NotFound, match="no bucket nothing"):
        desk.status("nothing", now=NOW)


def test_sites_of_rules_are_told_before_anything_is_replicated(tables: Tables, desk: ReplicationDesk) -> None:
    assert desk.status(now=NOW) == []
    rule = ReplicationRule("r", 1, True, Filter(), "replicas", ("paris",))
    tables.put(REPLICATION + "uid", ReplicationRules((rule,)).to_json())
    assert [view.site for view in desk.status(now=NOW)] == ["paris"]
    assert [view.site for view in desk.status("photos", now=NOW)] == ["paris"]
    assert desk.status("films", now=NOW) == []


def test_sites_are_in_use_that_rules_name_or_that_versions_are_on_their_way_to(tables: Tables) -> None:
    replicated(tables, "a", {"oslo": Status.FAILED, "rome": Status.PENDING, "bonn": Status.COMPLETED})
    rule = ReplicationRule("r", 1, True, Filter(), "replicas", ("paris",))
    tables.put(REPLICATION + "uid", ReplicationRules((rule,)).to_json())
    assert ReplicationQueries(tables).sites_in_use() == ["paris", "rome"]


def test_metrics_are_told_by_site_and_of_all_together(tables: Tables, desk: ReplicationDesk) -> None:
    replicated(tables, "a", {"oslo": Status.PENDING, "paris": Status.FAILED}, size=10)
    count = IntervalCount(completions=9, completion_bytes=1800, failures=1, failure_bytes=4)
    tables.put(IntervalKey("paris", interval_of(NOW), 1).entry, count.to_json())
    oslo, paris, both = desk.metrics_by_site(EVERY_SITE, now=NOW)
    assert (oslo.site, oslo.pending, oslo.backlog, oslo.completions) == ("oslo", 1, 1, 0)
    assert paris.model_dump() == {
        **{"site": "paris", "throughput": 0.01, "throughput_bytes": 2.0, "completions": 9, "completion_bytes": 1800},
        **{"failures": 1, "failure_bytes": 4, "backlog": 1, "backlog_bytes": 10, "pending": 0, "pending_bytes": 0},
    }
    assert (both.site, both.pending, both.backlog, both.backlog_bytes, both.completions) == ("all", 1, 2, 20, 9)
    assert desk.metrics_by_site("paris", now=NOW) == [paris]


def test_metrics_have_the_shapes_of_backbeat(tables: Tables, desk: ReplicationDesk) -> None:
    replicated(tables, "a", {"oslo": Status.PENDING, "paris": Status.FAILED}, size=10)
    current = interval_of(NOW)
    for site, number in (("oslo", current), ("paris", current), ("paris", current - 10), ("paris", current - 288)):
        count = IntervalCount(completions=9, completion_bytes=1800, failures=1, failure_bytes=4)
        tables.put(IntervalKey(site, number, 1).entry, count.to_json())
    assert desk.metrics("paris", Metric, now=NOW) == {
        "backlog": {
            "description": "Number of incomplete replication operations (count) and number of incomplete bytes "
            "transferred (size)",
            "results": {"count": 1, "size": 10},
        },
        "completions": {
            "description": "Number of completed replication operations (count) and number of bytes transferred (size) "
            "in the last 86400 seconds",
            "results": {"count": 18, "size": 3600},
        },
        "failures": {
            "description": "Number of failed replication operations (count) and bytes (size) in the last 86400 seconds",
            "results": {"count": 2, "size": 8},
        },
        "throughput": {
            "description": "Current throughput for replication operations in ops/sec (count) and bytes/sec (size) in "
            "the last 900 seconds",
            "results": {"count": "0.01", "size": "2.00"},
        },
        "pending": {
            "description": "Number of pending replication operations (count) and bytes (size)",
            "results": {"count": 0, "size": 0},
        },
    }
    total = desk.metrics(EVERY_SITE, [Metric.BACKLOG, Metric.COMPLETIONS], now=NOW)
    assert [shown["results"] for shown in total.values()] == [
        {"count": 2, "size": 20},
        {"count": 27, "size": 5400},
    ]
    with pytest.raises(NotFound, match="no site 'rome'"):
        desk.metrics("rome", [Metric.BACKLOG], now=NOW)


def test_of_an_interval_that_is_partly_too_old_a_part_counts_as_throughput(
    tables: Tables, desk: ReplicationDesk
) -> None:
    now = 1000.0 * INTERVAL_SECONDS + INTERVAL_SECONDS / 2
    tables.put(IntervalKey("oslo", 997, 0).entry, IntervalCount(completions=1800, completion_bytes=900).to_json())
    assert desk.metrics("oslo", [Metric.THROUGHPUT], now=now)["throughput"]["results"] == {
        "count": "1.00",
        "size": "0.50",
    }
    tables.put(IntervalKey("oslo", 996, 0).entry, IntervalCount(completions=1800, completion_bytes=900).to_json())
    assert desk.metrics("oslo", [Metric.THROUGHPUT], now=now)["throughput"]["results"] == {
        "count": "1.00",
        "size": "0.50",
    }


def test_progress_is_that_of_the_version_or_of_the_newest(tables: Tables, desk: ReplicationDesk) -> None:
    replicated(tables, "a:b\n", {"oslo": Status.PENDING, "paris": Status.COMPLETED}, size=900)
    shown = desk.progress("oslo", "photos", "a:b\n", "v1")
    assert (shown["pending"], shown["completed"], shown["progress"]) == (900, 0, "0%")
    shown = desk.progress("paris", "photos", "a:b\n", "")
    assert (shown["pending"], shown["completed"], shown["progress"]) == (0, 900, "100%")
    assert desk.object_throughput("paris", "photos", "a:b\n", "", now=NOW)["throughput"] == "1.00"
    assert desk.object_throughput("paris", "photos", "a:b\n", "", now=WRITTEN + 901)["throughput"] == "0.00"
    assert [(view.site, view.status, view.progress) for view in desk.version("photos", "a:b\n")] == [
        ("oslo", "PENDING", "0%"),
        ("paris", "COMPLETED", "100%"),
    ]
    for site, version in (("rome", "v1"), ("oslo", "v2")):
        with pytest.raises(NotFound):
            desk.progress(site, "photos", "a:b\n", version)
    with pytest.raises(NotFound, match="photos/other is not replicated"):
        desk.version("photos", "other")


def test_a_pause_holds_until_it_is_resumed_or_its_time_has_come(desk: ReplicationDesk) -> None:
    desk.pause(["oslo"], now=NOW)
    assert desk.paused(desk.sites(), now=NOW + 10**9).keys() == {"oslo", "paris"}
    assert [site for site, pause in desk.paused(desk.sites(), now=NOW + 10**9).items() if pause] == ["oslo"]
    assert desk.resume_in(desk.sites(), 60, now=NOW) == ["oslo"]
    assert desk.paused(["oslo"], now=NOW + 59)["oslo"] is not None
    assert desk.paused(["oslo"], now=NOW + 60)["oslo"] is None
    desk.keep_paused(desk.sites(), now=NOW + 30)
    found = desk.paused(desk.sites(), now=NOW + 60)
    assert found["oslo"] is not None
    assert (found["oslo"].paused_at, found["oslo"].resume_at, found["paris"]) == (NOW, None, None)
    desk.resume_in(["oslo"], 60, now=NOW)
    desk.pause(["oslo"], now=NOW + 30)  # a pause by hand ends the schedule
    assert desk.paused(["oslo"], now=NOW + 60)["oslo"] is not None
    desk.resume(["oslo"])
    assert desk.paused(["oslo"], now=NOW)["oslo"] is None


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_resume_at_no_possible_time_is_refused(desk: ReplicationDesk, seconds: float) -> None:
    with pytest.raises(InvalidInput, match="hours"):
        desk.resume_in(["oslo"], seconds, now=NOW)


def test_the_history_tells_failures_and_retries_also_of_what_is_in_no_list(desk: ReplicationDesk) -> None:
    assert desk.history(count=5) == []
    create_replication_topics(desk.topics)
    made = [
        StatusUpdate(bucket="photos", bucket_uid="uid", key=key, version_id="v1", site=site, status=status, at=at,
                     is_retry=status is Status.PENDING, reason=reason)
        for key, site, status, at, reason in (
            ("a", "oslo", Status.FAILED, 1.0, "down"),
            ("b", "oslo", Status.FAILED, 2.0, "down"),
            ("a", "paris", Status.FAILED, 3.0, "full"),
            ("a", "oslo", Status.PENDING, 4.0, ""),
        )
    ]  # fmt: skip
    send(desk.topics, REPLICATION_AUDIT_TOPIC, made)
    assert [view.at.timestamp() for view in desk.history(count=3)] == [2.0, 3.0, 4.0]
    told = [(view.status, view.site, view.reason) for view in desk.history(bucket="photos", key="a", count=9)]
    assert told == [("FAILED", "oslo", "down"), ("FAILED", "paris", "full"), ("PENDING", "oslo", "")]
    assert [view.reason for view in desk.history(site="paris", count=9)] == ["full"]
    assert desk.history(bucket="films", count=9) == []


def test_the_recovery_point_counts_what_the_populator_has_not_read(tables: Tables, topics: FileTopics) -> None:
    rule = ReplicationRule("all", 1, True, Filter(), "copies", ("lyon",))
    tables.put(f"{REPLICATION}uid", ReplicationRules((rule,)).to_json())
    topics.create("log", 2)
    topics.append("log", [Record("a", b"event")])
    measured = ReplicationGauges(tables, topics, log_topic="log")
    oldest = metrics.REPLICATION_OLDEST.labels("lyon")._value
    measured.measure(now=time.time() + 100)
    assert 99 <= oldest.get() <= 160
    consumer = topics.consumer("log", POPULATOR_GROUP)
    consumer.acknowledge(consumer.poll(10, 5.0))
    consumer.close()
    measured.measure(now=time.time() + 100)
    assert oldest.get() == 0


def test_the_gauges_tell_the_recovery_point_and_go_back_to_nothing(tables: Tables, topics: FileTopics) -> None:
    def told() -> list[float]:
        gauges = (metrics.REPLICATION_PENDING, metrics.REPLICATION_FAILED, metrics.REPLICATION_OLDEST)
        return [gauge.labels("lyon")._value.get() for gauge in gauges]

    measured = ReplicationGauges(tables, topics, log_topic="log")
    replicated(tables, "a", {"lyon": Status.PENDING})
    replicated(tables, "b", {"lyon": Status.FAILED})
    measured.measure(now=NOW)
    assert told() == [1, 1, pytest.approx(100)]
    for key in "ab":
        replicated(tables, key, {"lyon": Status.COMPLETED})
    measured.measure(now=NOW + 5)
    assert told() == [1, 1, pytest.approx(105)]
    measured.measure(now=NOW + 10)
    assert told() == [0, 0, 0]
