"""How long a day is for a bucket, and how often passes come: by the settings, or shorter while the demo is on.

`tidegate demo` shortens the day of a running service by an entry in the tables. The entry holds only for a service
that was started for it (`tidegate up --demo`), only for the buckets of the pool `demo`, and only for an hour: it can
never make other objects old before their time.
"""

from __future__ import annotations

import logging
import time
from functools import lru_cache

from tidegate.ports import Tables
from tidegate.settings import LifecycleSettings

DEMO_POOL = "demo"
DEMO_DAY = "lifecycle/day-seconds"
_DEMO_LASTS_SECONDS = 3600.0
_DEMO_INTERVAL_SECONDS = 5.0
_WARN_SECONDS = 60.0

logger = logging.getLogger(__name__)


def day_seconds(tables: Tables, settings: LifecycleSettings, pool: str) -> float:
    """The length of a day for the buckets of a pool. Ask once per pass and bucket: it may change at any time."""
    shortened = demo_day_seconds(tables, settings) if pool == DEMO_POOL else None
    return settings.day_seconds if shortened is None else shortened


def interval_seconds(tables: Tables, settings: LifecycleSettings) -> float:
    """The time from the beginning of one pass to that of the next; 0 means by the cron expression."""
    shortened = demo_day_seconds(tables, settings)
    if shortened is None:
        return settings.interval_seconds
    _warn(shortened, int(time.monotonic() // _WARN_SECONDS))
    return min(settings.interval_seconds or _DEMO_INTERVAL_SECONDS, _DEMO_INTERVAL_SECONDS)


@lru_cache(maxsize=1)
def _warn(seconds: float, period: int) -> None:
    """Once in a while: the result is remembered for as long as the period is the same."""
    logger.warning(
        "THE DEMO IS ON: a day in the pool %s lasts %g s; end it with: tidegate demo --off", DEMO_POOL, seconds
    )


def demo_day_seconds(tables: Tables, settings: LifecycleSettings) -> float | None:
    """The shortened day; None while the demo is off, or where it is not allowed."""
    text = tables.get(DEMO_DAY) if settings.demo_day else None
    return float(text) if text is not None else None


def shorten_demo_day(tables: Tables, seconds: float) -> None:
    tables.put(DEMO_DAY, repr(float(seconds)), expires_in=_DEMO_LASTS_SECONDS)


def restore_demo_day(tables: Tables) -> bool:
    """True if it was shortened."""
    return tables.delete(DEMO_DAY)
