"""Cron expressions: five fields (minute, hour, day of month, month, day of week), all in UTC.

Each field is `*`, a number, a range `a-b`, a step `*/n`, `a/n` or `a-b/n`, or a list of these; months and days may be
named by three letters, and Sunday is 0 or 7. As in every cron, a time matches either day field where both are
restricted. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` stand for their usual times.
"""

from __future__ import annotations

import re
from copy import copy
from datetime import UTC, datetime
from typing import Self

from cronsim import CronSim, CronSimError

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
_PART = re.compile(r"(?:\*|(\d{1,3}|[a-z]{3})(?:-(\d{1,3}|[a-z]{3}))?)(?:/(\d{1,3}))?", re.ASCII)
_LAST = {"minute": 59, "hour": 23, "day of the month": 31, "month": 12, "day of the week": 7}


class Cron(CronSim):
    """When something is to happen."""

    @classmethod
    def parse(cls, expression: str) -> Self:
        fields = _NICKNAMES.get(expression.strip().lower(), expression).lower().split()
        if len(fields) != len(_LAST):
            raise InvalidInput(f"a cron expression has five fields, such as '0 1 * * *', and {expression!r} has not")
        plain = " ".join(_checked(text, name, last) for text, (name, last) in zip(fields, _LAST.items(), strict=True))
        try:
            cron = cls(plain, datetime.fromtimestamp(0, UTC))
        except CronSimError as error:
            raise InvalidInput(f"{expression!r} is no cron expression: {error}") from None
        if cron.next_after(0) is None:
            raise InvalidInput(f"the cron expression {expression!r} names a day that never comes")
        return cron

    def next_after(self, unix: float) -> float | None:
        """The first time that matches and is later than `unix`; None if there is none."""
        times = copy(self)
        times.dt = datetime.fromtimestamp(unix, UTC).replace(microsecond=0)
        found = next(times, None)
        return found.timestamp() if found is not None else None


def _checked(text: str, name: str, last: int) -> str:
    """The library knows more forms than those above, and takes the one value of `a-a/n` for `a/n`."""
    parts = []
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None or int(found[3] or 1) > last:
            raise InvalidInput(f"in a cron expression, {part!r} is not a {name}")
        first, end, _ = found.groups()
        parts.append(first if end is not None and first.lstrip("0") == end.lstrip("0") else part)
    return ",".join(parts)
