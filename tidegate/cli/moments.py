"""Points in time as command-line values."""

from __future__ import annotations

import re
import time
from datetime import datetime

import click

from tidegate.administration import seconds_of

_UNITS = {"m": 60, "h": 3600, "d": 86400}
_UNITS_OF_DURATIONS = {"s": 1, **_UNITS}


class Moment(click.ParamType[float]):
    """`2030-01-31`, `2030-01-31T12:00:00+01:00` (UTC without a zone), or from now on: `90m`, `12h`, `30d`."""

    name = "WHEN"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> float:
        text = str(value)
        if found := re.fullmatch(r"(\d{1,6})([mhd])", text):
            return time.time() + int(found[1]) * _UNITS[found[2]]
        try:
            seconds = seconds_of(datetime.fromisoformat(text))
        except (ValueError, OverflowError):
            seconds = None
        if seconds is None:
            self.fail(f"{text!r} is neither a date such as 2030-01-31 nor a time from now such as 12h or 30d")
        return seconds


class PastMoment(Moment):
    """As `Moment`, but `90m`, `12h` and `30d` are so long ago."""

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> float:
        if found := re.fullmatch(r"(\d{1,6})([mhd])", str(value)):
            return time.time() - int(found[1]) * _UNITS[found[2]]
        return super().convert(value, parameter, context)


class Duration(click.ParamType[float]):
    """`30s`, `90m`, `12h` or `30d`, in seconds."""

    name = "TIME"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> float:
        found = re.fullmatch(r"(\d{1,6})([smhd])", str(value))
        if found is None:
            self.fail(f"{str(value)!r} is no time such as 30s, 90m, 12h or 30d")
        return float(int(found[1]) * _UNITS_OF_DURATIONS[found[2]])


MOMENT = Moment()
DURATION = Duration()
PAST_MOMENT = PastMoment()
