from __future__ import annotations

from tidegate.workers.batch_size import BatchSize


def test_it_follows_what_was_done_in_time_between_its_bounds() -> None:
    size = BatchSize(10, least=2, most=1000, lease_seconds=4.0)
    assert (size.current, size.seconds) == (10, 1.0)
    size.observe(10, 0.1)
    assert size.current == 100
    size.observe(100, 0.0)
    assert size.current == 1000
    size.observe(1, 60.0)
    assert size.current == 2


def test_a_long_lease_makes_no_batches_that_take_longer_than_a_moment() -> None:
    assert BatchSize(10, least=1, most=100, lease_seconds=600.0).seconds == 1.5
