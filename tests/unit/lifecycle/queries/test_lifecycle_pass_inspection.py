"""Passes as operators see them: reports, progress, requests, and the plans that passes left."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lifecycle_place import LifecyclePlace

from tidegate.core.errors import Conflict, NotFound, Unavailable
from tidegate.lifecycle.passes.pass_lock import LOCK
from tidegate.lifecycle.passes.pass_records import (
    BucketReport,
    PassProgress,
    PassReport,
    PassReports,
    PassRequests,
    PassStatus,
)
from tidegate.lifecycle.passes.plan_files import PlanFiles
from tidegate.lifecycle.queries.pass_inspection import PassInspector, PassProgressView
from tidegate.settings import LifecycleSettings

SECOND = 1_000_000_000


@pytest.fixture
def inspector(place: LifecyclePlace, tmp_path: Path) -> PassInspector:
    return PassInspector(place.tables, LifecycleSettings(), tmp_path)


def report(pass_id: str, **fields: object) -> PassReport:
    return PassReport(pass_id, "spark", "schedule", 5 * SECOND, 2, **fields)  # type: ignore[arg-type]


def write_plan(folder: Path, rows: list[dict[str, object]], name: str = "part-0.parquet") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    whole = {
        "version_id": "", "upload_id": None, "kind": "ExpirationDays", "effect": "deleteObject", "hold": None,
        "due_ns": 7 * SECOND, "rule_id": "r", "bucket": "b", "size": 10, "more": 1,
    }  # fmt: skip
    schema = pa.schema([("upload_id", pa.string()), ("hold", pa.string())])
    table = pa.Table.from_pylist([whole | row for row in rows])
    for column in schema:
        place = table.schema.get_field_index(column.name)
        table = table.set_column(place, column, table.column(column.name).cast(column.type))
    pq.write_table(table, folder / name, row_group_size=2)


def test_a_request_waits_and_is_seen_waiting(inspector: PassInspector, place: LifecyclePlace) -> None:
    place.pool()
    place.bucket("photos")
    request = inspector.submit("photos", dry_run=True, engine="spark")
    stored = PassRequests(place.tables).oldest()
    assert stored is not None
    assert (stored.id, stored.bucket, stored.dry_run, stored.engine) == (request.id, "photos", True, "spark")
    assert inspector.current().waiting == [request]
    with pytest.raises(NotFound, match="has not begun yet"):
        inspector.show(request.id)


def test_a_pass_over_a_bucket_that_is_not_there_is_refused(inspector: PassInspector) -> None:
    with pytest.raises(NotFound, match="there is no bucket photos"):
        inspector.submit("photos")


def test_no_pass_can_be_asked_for_while_lifecycle_is_off(place: LifecyclePlace, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="switched off"):
        PassInspector(place.tables, LifecycleSettings(enabled=False), tmp_path).submit()


def test_no_more_passes_can_be_asked_for_than_can_ever_run(inspector: PassInspector) -> None:
    for _ in range(100):
        inspector.submit()
    with pytest.raises(Conflict, match="100 passes wait already"):
        inspector.submit()


def test_history_is_the_newest_in_order(inspector: PassInspector, place: LifecyclePlace) -> None:
    for number in range(5):
        PassReports(place.tables).put(report(f"p{number}"))
    assert [view.id for view in inspector.history(2)] == ["p3", "p4"]


def test_a_report_is_shown_with_its_buckets(inspector: PassInspector, place: LifecyclePlace) -> None:
    detail = BucketReport("b", "u", recoveries={"cold-start": 16}, walked=True, planned={"ExpirationDays": 3})
    ended = report("p", dry_run=True).ended(6 * SECOND, PassStatus.BLOCKED, [detail], problem="the store refuses")
    PassReports(place.tables).put(ended)
    view = inspector.show("p")
    assert (view.status, view.problem, view.planned, view.dry_run) == ("blocked", "the store refuses", 3, True)
    assert view.ended_at is not None and view.ended_at.timestamp() == 6
    assert view.details[0].recoveries == {"cold-start": 16} and view.details[0].walked
    assert (view.plan, view.entries) == ([], [])
    assert inspector.current().last == inspector.history(1)[0]


def test_an_unknown_pass_is_unknown_whatever_its_name(inspector: PassInspector) -> None:
    for name in ("p", "../../etc", ""):
        with pytest.raises(NotFound, match="there is no pass"):
            inspector.show(name)


def test_progress_counts_only_while_the_pass_holds_its_lock(inspector: PassInspector, place: LifecyclePlace) -> None:
    PassProgress("p", "acting", 5 * SECOND, planned=10, finished=4, buckets=2).store(place.tables)
    assert inspector.current().running is None  # it was killed
    place.tables.put(LOCK, "somebody")
    running = inspector.current().running
    assert running is not None and (running.id, running.stage, running.planned, running.finished) == (
        "p",
        "acting",
        10,
        4,
    )


def test_waiting_ends_with_the_pass(inspector: PassInspector, place: LifecyclePlace) -> None:
    request = inspector.submit()
    seen: list[PassProgressView | None] = []

    def serve() -> None:
        while not seen:
            time.sleep(0.01)
        PassReports(place.tables).put(report(request.id))
        PassRequests(place.tables).done(request.id)
        time.sleep(0.1)
        PassReports(place.tables).put(report(request.id).ended(9 * SECOND, PassStatus.OK))

    server = Thread(target=serve)
    server.start()
    assert inspector.wait(request.id, seen.append).status == "ok"
    server.join()
    with pytest.raises(NotFound):
        inspector.wait("another", seen.append)


def test_a_plan_is_summed_by_bucket_rule_and_hold(tmp_path: Path) -> None:
    folder = tmp_path / "passes" / "p" / "plan"
    write_plan(folder, [{"key": f"k{number}"} for number in range(5)])
    more: list[dict[str, object]] = [{"key": "l", "hold": "object-lock"}, {"key": "m", "rule_id": "s", "size": None}]
    write_plan(folder, more, "part-1.parquet")
    write_plan(folder, [{"key": "n", "bucket": "a"}], "part-2.parquet")
    write_plan(folder / "_listed", [{"key": "o", "bucket": "what was listed is no part of the plan"}])
    lines = PlanFiles(tmp_path, "p").sums()
    assert [(line.bucket, line.rule_id, line.held, line.count, line.bytes) for line in lines] == [
        ("a", "r", "", 1, 10),
        ("b", "r", "", 5, 50),
        ("b", "r", "object-lock", 1, 10),
        ("b", "s", "", 1, 0),
    ]


def test_only_the_first_entries_of_a_plan_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "passes" / "p" / "plan"
    write_plan(folder, [{"key": f"k\n{number}"} for number in range(5)])
    (folder / "zzz.parquet").write_bytes(b"this is never looked at")
    entries = PlanFiles(tmp_path, "p").first(3)
    assert [entry.key for entry in entries] == ["k\n0", "k\n1", "k\n2"]
    assert (entries[0].due_at.timestamp(), entries[0].size, entries[0].upload_id, entries[0].held) == (7, 10, "", "")
    with pytest.raises(Unavailable, match="cannot be read"):
        PlanFiles(tmp_path, "p").first(9)
    assert PlanFiles(tmp_path, "q").first(9) == []
