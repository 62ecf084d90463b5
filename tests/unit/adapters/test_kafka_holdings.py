from __future__ import annotations

from tidegate.adapters.kafka_holdings import Holdings
from tidegate.adapters.kafka_progress import Delivery, Source
from tidegate.ports import Message

MAIN = ("t", 0)
RETRY = ("t.g.retry", 0)


def message(offset: int, attempt: int = 1) -> Message:
    return Message("t", 0, offset, "k", b"v", 0.0, attempt)


def holding() -> Holdings:
    holdings = Holdings()
    holdings.gain(MAIN, [])
    holdings.gain(RETRY, [])
    return holdings


def read_first(holdings: Holdings, offset: int) -> None:
    source = Source(*MAIN, offset)
    assert holdings.expects(source)
    holdings.add_ready(Delivery(message(offset), source))


def read_retry(holdings: Holdings, offset: int, of: Message, not_before: float) -> None:
    source = Source(*RETRY, offset)
    assert holdings.expects(source)
    holdings.add_waiting(Delivery(of, source, not_before))


def test_message_of_a_partition_that_is_not_held_is_not_expected() -> None:
    assert not holding().expects(Source("t", 1, 0))


def test_only_what_was_taken_is_in_flight_and_can_be_finished() -> None:
    holdings = holding()
    read_first(holdings, 0)
    holdings.finish(message(0))
    assert holdings.uncommitted([MAIN]) == {MAIN: (0, "")}
    assert holdings.take(10, now=0.0) == [message(0)]
    assert holdings.in_flight(message(0))
    holdings.finish(message(0))
    assert not holdings.in_flight(message(0))
    assert holdings.uncommitted([MAIN]) == {MAIN: (1, "")}


def test_offsets_that_kafka_knows_are_not_committed_again() -> None:
    holdings = holding()
    read_first(holdings, 0)
    holdings.committed(holdings.uncommitted([MAIN, RETRY]))
    assert holdings.uncommitted([MAIN, RETRY]) == {}


def test_retry_that_is_not_due_holds_back_its_offset_but_no_message() -> None:
    holdings = holding()
    read_retry(holdings, 0, message(3, attempt=2), not_before=50.0)
    read_retry(holdings, 1, message(4, attempt=2), not_before=10.0)
    assert holdings.take(10, now=20.0) == [message(4, attempt=2)]
    holdings.finish(message(4, attempt=2))
    assert holdings.uncommitted([RETRY]) == {RETRY: (0, "done:1")}
    assert holdings.next_due() == 50.0


def test_second_copy_of_a_retry_is_finished_with_the_first() -> None:
    holdings = holding()
    for offset in (0, 1):
        read_retry(holdings, offset, message(3, attempt=2), not_before=0.0)
    assert holdings.take(10, now=1.0) == [message(3, attempt=2)]
    holdings.finish(message(3, attempt=2))
    assert holdings.uncommitted([RETRY]) == {RETRY: (2, "")}


def test_neither_kind_starves_the_other() -> None:
    holdings = holding()
    for offset in range(2):
        read_first(holdings, offset)
        read_retry(holdings, offset, message(offset + 10, attempt=2), not_before=0.0)
    taken = [holdings.take(1, now=1.0)[0].attempt for _ in range(4)]
    assert sorted(taken[:2]) == sorted(taken[2:]) == [1, 2]


def test_dropped_partition_leaves_nothing_behind() -> None:
    holdings = holding()
    read_first(holdings, 0)
    read_first(holdings, 1)
    assert holdings.take(1, now=0.0) == [message(0)]
    read_retry(holdings, 0, message(9, attempt=2), not_before=5.0)
    holdings.drop([MAIN])
    holdings.finish(message(0))
    assert holdings.places == [RETRY]
    assert holdings.ready_count == 0
    assert holdings.uncommitted([MAIN]) == {}
    assert holdings.take(10, now=5.0) == [message(9, attempt=2)]
    holdings.drop([RETRY])
    assert holdings.waiting_bytes == 0
