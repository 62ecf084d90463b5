"""The rate limit: a burst at once, then so many per second, shared among the workers."""

from __future__ import annotations

from pathlib import Path

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.workers.rate import Members, RateLimit


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_rate_nothing_waits() -> None:
    limit = RateLimit(0)
    assert (limit.take(10**6), limit.portion(1.0, 4000)) == (0.0, 4000)


def test_a_burst_of_twice_the_rate_passes_and_the_rest_waits() -> None:
    clock = Clock()
    limit = RateLimit(10, clock=clock)
    assert limit.take(20) == 0.0
    assert limit.take(5) == 0.5
    assert limit.take(10) == 1.5
    clock.now += 1.5
    assert limit.take(1) == 0.1


def test_tokens_do_not_pile_up_beyond_the_burst() -> None:
    clock = Clock()
    limit = RateLimit(10, 3, clock=clock)
    clock.now += 1000
    assert limit.take(3) == 0.0
    assert limit.take(1) == 0.1


def test_each_of_several_workers_gets_its_share() -> None:
    clock = Clock()
    limit = RateLimit(10, 20, clock=clock)
    limit.share(4)
    assert limit.take(5) == 0.0
    assert limit.take(5) == 2.0
    assert limit.portion(2.0, 4000) == 5
    limit.share(1)
    clock.now += 1
    assert limit.take(5) == 0.0


def test_a_slow_rate_still_lets_one_through_at_a_time() -> None:
    clock = Clock()
    limit = RateLimit(0.1, clock=clock)
    assert limit.portion(1.0, 4000) == 1
    clock.now += 100
    assert limit.take(1) == 0.0


def test_workers_are_counted_while_their_entries_live(tmp_path: Path) -> None:
    tables = SqliteTables(tmp_path / "tables.db")
    mine, other = Members(tables, "test/"), Members(tables, "test/")
    other.name = "elsewhere:1"
    assert [mine.renew(), other.renew(), mine.renew()] == [1, 2, 2]
    other.leave()
    assert mine.renew() == 1
    tables.close()
