"""Points in time as command-line values."""

from __future__ import annotations

import re
import time
from datetime import datetime

import click

from tidegate.administration import seconds_of

_UNITS = {"m": 60, "h": 3600, "d": 86400}


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


MOMENT = Moment()
PAST_MOMENT = PastMoment()
