from __future__ import annotations

import pytest

from tidegate.core.replication.counts import ArrivedCount, ArrivedKey, IntervalCount, IntervalKey, interval_of
from tidegate.core.replication.messages import StatusUpdate, VersionGone, read_status
from tidegate.core.replication.pauses import Pause
from tidegate.core.replication.records import Status


@pytest.mark.parametrize(("now", "holds"), [(9.0, True), (9.999, True), (10.0, False), (11.0, False)])
def test_a_pause_ends_at_the_time_it_was_given(now: float, holds: bool) -> None:
    assert Pause(1.0, 10.0).holds(now) is holds
    assert Pause(1.0).holds(now)


def test_keys_of_counters_are_read_as_they_are_written() -> None:
    for arrived in (ArrivedKey("one", "uid", 3), ArrivedKey("a-b", "u-2", 0)):
        assert ArrivedKey.of_entry(arrived.entry) == arrived
    interval = IntervalKey("one", interval_of(1_700_000_000.0), 2)
    assert IntervalKey.of_entry(interval.entry) == interval


def test_intervals_begin_every_five_minutes_and_lie_in_the_order_of_their_times() -> None:
    assert [interval_of(now) for now in (299.9, 300.0, 599.9, 600.0)] == [0, 1, 1, 2]
    assert IntervalKey("one", 9, 0).entry < IntervalKey("one", 10, 0).entry


def test_counts_add_up() -> None:
    assert ArrivedCount(2, 20).plus(-1, -5) == ArrivedCount(1, 15)
    assert IntervalCount(1, 2, 3, 4).plus(IntervalCount(10, 20, 30, 40)) == IntervalCount(11, 22, 33, 44)


def test_both_kinds_of_messages_of_the_status_topic_are_told_apart() -> None:
    where = {"bucket": "b", "bucket_uid": "uid", "key": "k:ü", "version_id": "v"}
    update = StatusUpdate(**where, site="one", status=Status.FAILED, at=1.0, reason="away")  # type: ignore[arg-type]
    gone = VersionGone(**where)
    assert read_status(update.to_bytes()) == update
    assert read_status(gone.to_bytes()) == gone
