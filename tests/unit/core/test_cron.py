"""Cron expressions: the next time that matches, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.cron import Cron
from tidegate.core.errors import InvalidInput


def unix(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("0 1 * * *", "2026-03-01 00:59:59", "2026-03-01 01:00"),
        ("0 1 * * *", "2026-03-01 01:00:00", "2026-03-02 01:00"),
        ("*/15 * * * *", "2026-03-01 00:14:59", "2026-03-01 00:15"),
        ("5/20 3 * * *", "2026-03-01 03:25:00", "2026-03-01 03:45"),
        ("0 0 31 * *", "2026-01-31 00:00:00", "2026-03-31 00:00"),
        ("0 0 29 2 *", "2026-03-01 00:00:00", "2028-02-29 00:00"),
        ("30 2 * jan,jul mon-fri", "2026-01-30 02:30:00", "2026-07-01 02:30"),
        ("0 12 * * sun", "2026-03-01 12:00:00", "2026-03-08 12:00"),
        ("0 12 * * 7", "2026-03-02 00:00:00", "2026-03-08 12:00"),
        ("0 0 13 * fri", "2026-03-01 00:00:00", "2026-03-06 00:00"),  # both days given: either counts
        ("0 0 */10 * fri", "2026-03-01 00:00:00", "2026-05-01 00:00"),  # a star counts as not given
        ("@hourly", "2026-12-31 23:00:00", "2027-01-01 00:00"),
        ("@weekly", "2026-03-02 00:00:00", "2026-03-08 00:00"),
    ],
)
def test_the_next_time_is_the_first_that_matches_and_is_later(expression: str, after: str, expected: str) -> None:
    assert Cron.parse(expression).next_after(unix(after)) == unix(expected)


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *",
     "*/0 * * * *", "a * * * *", "-1 * * * *", "1- * * * *", "0 0 30 2 *", "* * * * fri-mon", "@never", "٣ * * * *"],
)  # fmt: skip
def test_what_is_no_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(InvalidInput):
        Cron.parse(expression)


@given(
    st.tuples(
        st.sampled_from(["*", "0", "*/7", "10-20", "1,31,59"]),
        st.sampled_from(["*", "3", "*/5", "22-23"]),
        st.sampled_from(["*", "1", "28", "15,31"]),
        st.sampled_from(["*", "2", "6-8"]),
        st.sampled_from(["*", "0", "1-5"]),
    ),
    st.integers(0, 4_000_000_000),
)
def test_no_earlier_minute_would_have_matched(fields: tuple[str, ...], after: int) -> None:
    """Checked against the plain definition over the two days before the time that was found."""
    cron = Cron.parse(" ".join(fields))
    found = cron.next_after(after)
    assert found is not None and found > after and found % 60 == 0

    def matches(minute: float) -> bool:
        moment = datetime.fromtimestamp(minute, UTC)
        by_date, by_weekday = moment.day in cron.days, moment.isoweekday() % 7 in cron.weekdays
        either = fields[2] != "*" and fields[4] != "*"
        return (
            moment.minute in cron.minutes
            and moment.hour in cron.hours
            and moment.month in cron.months
            and (by_date or by_weekday if either else by_date and by_weekday)
        )

    assert matches(found)
    start = max(after - after % 60 + 60, int(found) - 2 * 86400)
    assert not any(matches(minute) for minute in range(start, int(found), 60))
