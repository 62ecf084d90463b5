"""Cron expressions: five fields (minute, hour, day of month, month, day of week), all in UTC.

Each field is `*`, a number, a range `a-b`, a step `*/n`, `a/n` or `a-b/n`, or a list of these; months and days may be
named by three letters, and Sunday is 0 or 7. As in every cron, a time matches either day field where both are
restricted. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` stand for their usual times.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from tidegate.core.errors import InvalidInput

_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# The 29th of February comes at the latest after eight years, on a given day of the week after forty.
_FURTHEST_DAYS = 41 * 366


@dataclass(frozen=True, slots=True)
class Cron:
    """When something is to happen. Days of the week count from Sunday, 0."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    @classmethod
    def parse(cls, expression: str) -> Self:
        fields = _NICKNAMES.get(expression.strip().lower(), expression).split()
        if len(fields) != 5:
            raise InvalidInput(f"a cron expression has five fields, such as '0 1 * * *', and {expression!r} has not")
        minute, hour, day, month, weekday = (field.lower() for field in fields)
        cron = cls(
            minutes=_field(minute, 0, 59),
            hours=_field(hour, 0, 23),
            days=_field(day, 1, 31),
            months=_field(month, 1, 12, _MONTHS),
            weekdays=frozenset(number % 7 for number in _field(weekday, 0, 7, _DAYS)),
            either_day=not day.startswith("*") and not weekday.startswith("*"),
        )
        if cron.next_after(0) is None:
            raise InvalidInput(f"the cron expression {expression!r} names a day that never comes")
        return cron

    def next_after(self, unix: float) -> float | None:
        """The first time that matches and is later than `unix`; None if there is none."""
        moment = datetime.fromtimestamp(unix, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        day = moment.replace(hour=0, minute=0)
        for number in range(_FURTHEST_DAYS):
            candidate = day + timedelta(days=number)
            if self._matches_day(candidate):
                earliest = moment if number == 0 else candidate
                found = self._in_day(candidate, earliest)
                if found is not None:
                    return found.timestamp()
        return None

    def _matches_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.either_day else by_date and by_weekday

    def _in_day(self, day: datetime, earliest: datetime) -> datetime | None:
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                found = day.replace(hour=hour, minute=minute)
                if found >= earliest:
                    return found
        return None


def _field(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    return frozenset(number for part in text.split(",") for number in _part(part, low, high, names))


def _part(text: str, low: int, high: int, names: tuple[str, ...]) -> range:
    stretch, slash, step = text.partition("/")
    first, dash, last = stretch.partition("-")
    if stretch == "*":
        start, end = low, high
    else:
        start = _number(first, low, high, names)
        end = _number(last, low, high, names) if dash else (high if slash else start)
    width = _number(step, 1, high, ()) if slash else 1
    if end < start:
        raise InvalidInput(f"in a cron expression, {stretch!r} ends before it begins")
    return range(start, end + 1, width)


def _number(text: str, low: int, high: int, names: tuple[str, ...]) -> int:
    if text in names:
        return names.index(text) + (1 if names is _MONTHS else 0)
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and low <= int(text) <= high):
        raise InvalidInput(f"in a cron expression, {text!r} is not a number from {low} to {high}")
    return int(text)
