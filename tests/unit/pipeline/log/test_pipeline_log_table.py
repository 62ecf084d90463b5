"""The log table: reading what is asked for, dropping old days, merging small files."""

from __future__ import annotations

import os

import pyarrow.parquet as pq
import pytest
from log_cases import DAY_NS, MIDNIGHT, Log, put
from msgspec.structs import replace

from tidegate.pipeline.log import log_table
from tidegate.pipeline.log.manifest import Manifest, RejectedFile


@pytest.fixture
def log(spark, tmp_path):
    """Four events on each of five days, each day landed by itself."""
    opened = Log(spark, tmp_path)
    for day in range(5):
        opened.append(*(put(4 * day + hour, ts_ns=MIDNIGHT + day * DAY_NS + hour) for hour in range(4)))
        opened.land()
    yield opened
    opened.close()


def opened_files(log, **options):
    return len(log.table.read(log.spark, **options).inputFiles())


def test_reading_is_bounded_by_time_at_both_ends_included(log):
    assert log.sizes(since_ns=MIDNIGHT + 1, until_ns=MIDNIGHT + DAY_NS) == [1, 2, 3, 4]


def test_only_files_that_can_hold_what_is_asked_for_are_opened(log):
    assert opened_files(log) == 5
    assert opened_files(log, since_ns=MIDNIGHT + 3 * DAY_NS) == 2
    assert opened_files(log, until_ns=MIDNIGHT - 1) == 0
    assert opened_files(log, since_ns=MIDNIGHT + 4) == 4


@pytest.mark.parametrize("others", [0, 30, log_table.MOST_NAMED // 5 - 1, log_table.MOST_NAMED])
def test_of_some_buckets_all_events_are_read_and_no_others(log, others):
    """Up to as many buckets and days as are named, and beyond."""
    log.append(
        *(replace(put(100 + number, ts_ns=MIDNIGHT + number), bucket_uid=f"other-{number}") for number in range(others))
    )
    log.land()
    assert log.sizes(uids=["uid"]) == list(range(20))
    assert log.sizes(uids=["uid", *(f"other-{number}" for number in range(others))]) == [
        *range(20),
        *range(100, 100 + others),
    ]
    assert log.sizes(uids=["nobody"]) == []


def test_an_empty_table_reads_as_no_rows(spark, tmp_path):
    empty = Log(spark, tmp_path)
    assert empty.rows() == []
    assert empty.rows(columns=["key", "day"]) == []
    empty.close()


def test_retention_drops_whole_days_and_tells_the_horizon(log):
    assert log.table.retain(MIDNIGHT + 2 * DAY_NS) == MIDNIGHT + DAY_NS + 4
    assert log.sizes() == list(range(8, 20))
    assert not (log.table.path / "day=2024-10-04").exists()
    assert log.table.retain(MIDNIGHT) == MIDNIGHT + DAY_NS + 4


def test_retention_that_drops_nothing_leaves_the_log_complete(log):
    assert log.table.retain(MIDNIGHT) == 0
    assert log.sizes() == list(range(20))


def test_records_that_are_no_events_are_dropped_when_they_were_landed_long_ago(tmp_path):
    table = log_table.LogTable(tmp_path)
    folder = table.path / "_rejected"
    folder.mkdir(parents=True)
    for name, at in (("old", 100), ("new", 300)):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (at, at))
    table.commit(Manifest(rejected=(RejectedFile("_rejected/old", 1), RejectedFile("_rejected/new", 1))))
    assert table.retain(200 * 10**9) == 0
    assert [file.path for file in table.manifest().rejected] == ["_rejected/new"]
    assert [file.name for file in folder.iterdir()] == ["new"]


def test_what_was_dropped_is_not_landed_again(log):
    log.table.retain(MIDNIGHT + 2 * DAY_NS)
    assert log.land().events == 0


def test_merging_keeps_every_event_and_leaves_one_file_a_day(log):
    for number in range(20, 26):
        log.append(put(number, ts_ns=MIDNIGHT + number))
        log.land()
    before = log.table.manifest()
    assert log.table.compact(log.spark, most_files=3) == 6
    assert log.sizes() == list(range(26))
    after = log.table.manifest()
    assert log.parquet_files() == {file.path for file in after.files}
    assert (after.next_offsets, after.rows) == (before.next_offsets, before.rows)
    (merged,) = [file for file in after.files if file.rows == 10]
    assert (merged.first_ns, merged.last_ns) == (MIDNIGHT, MIDNIGHT + 25)
    assert log.table.compact(log.spark, most_files=3) == 0


def test_files_that_are_older_than_a_column_are_read_and_merged_with_newer_ones(log):
    log.append(put(20, ts_ns=MIDNIGHT + 20))
    log.land()
    for name in log.parquet_files():
        file = log.table.path / name
        pq.write_table(pq.read_table(file, partitioning=None).drop_columns(["is_replica"]), file)
    log.append(put(21, ts_ns=MIDNIGHT + 21, is_replica=True))
    log.land()
    for _ in range(2):
        found = {row.size: row.is_replica for row in log.rows(columns=["size", "is_replica"])}
        assert (found[20], found[21]) == (None, True)
        log.table.compact(log.spark, most_files=1)


@pytest.mark.parametrize("step", ["write_by_day", "_move", "_described", "sync_directory"])
def test_a_merge_killed_at_any_step_loses_and_doubles_nothing(log, monkeypatch, step):
    log.append(put(20, ts_ns=MIDNIGHT + 20))
    log.land()
    original = getattr(log_table, step)

    def killed(*arguments, **options):
        original(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(log_table, step, killed)
        with pytest.raises(KeyboardInterrupt):
            log.table.compact(log.spark, most_files=1)
    assert log.sizes() == list(range(21))
    log.table.compact(log.spark, most_files=1)
    assert log.sizes() == list(range(21))
    assert log.parquet_files() == {file.path for file in log.table.manifest().files}
