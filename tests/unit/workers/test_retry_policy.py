from __future__ import annotations

import pytest

from tidegate.workers.retry_policy import RetryPolicy


def test_tries_count_the_first_one() -> None:
    policy = RetryPolicy(delays=(1, 10), tries=3)
    assert [policy.may_retry(attempt) for attempt in (1, 2, 3, 4)] == [True, True, False, False]


def test_the_last_delay_stands_for_all_that_follow() -> None:
    policy = RetryPolicy(delays=(1, 10), tries=9)
    assert [policy.delay(attempt, lambda: 0.0) for attempt in (1, 2, 3, 8)] == [1, 10, 10, 10]
    assert RetryPolicy(delays=(), tries=2).delay(1, lambda: 1.0) == 0


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 10.0), (0.5, 11.0), (1.0, 12.0)])
def test_jitter_lengthens_a_delay_by_up_to_its_part(chance: float, expected: float) -> None:
    assert RetryPolicy(delays=(10,), jitter=0.2).delay(1, lambda: chance) == expected
