"""The states of a pool and what moves it from one to another. Pure: the manager and the registry act on it.

```
None ──▶ INITIAL ──▶ READY          a backend was started and set up
  any ──▶ DISABLED                  offline, expired, owner denied
DISABLED ──▶ INITIAL                the reason is gone
  any ──▶ INOPERABLE                a definite failure to start, or too many in a row
INOPERABLE ──▶ INITIAL              only by an operator's reset
```
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.records import Pool, PoolState, PoolStatus

# So many failed starts in a row, each of which might have been passing, make a pool inoperable.
MOST_PASSING_FAILURES = 5

_FAILURES = "failed start"


class Disabling(StrEnum):
    """Why a pool is not in service though nothing is broken."""

    OFFLINE = "offline"
    EXPIRED = "expired"
    DENIED = "owner denied"


def disabling_reason(pool: Pool, *, owner_permitted: bool, now: float) -> str | None:
    """Why the pool may not be used, if so."""
    if not pool.online:
        return Disabling.OFFLINE
    if pool.expires_at is not None and pool.expires_at <= now:
        return Disabling.EXPIRED
    if not owner_permitted:
        return Disabling.DENIED
    return None


@dataclass(frozen=True, slots=True)
class PoolCheck:
    """What a look at a pool gives: the status to record (None: as it is), and whether a backend may run."""

    status: PoolStatus | None
    may_run: bool
    reason: str


def judge(pool: Pool, status: PoolStatus | None, *, owner_permitted: bool, now: float) -> PoolCheck:
    """The state a pool is in by its own record; INOPERABLE stays whatever else changes."""
    if status is not None and status.state == PoolState.INOPERABLE:
        return PoolCheck(None, may_run=False, reason=status.reason)
    reason = disabling_reason(pool, owner_permitted=owner_permitted, now=now)
    if reason is not None:
        if status is not None and status.state == PoolState.DISABLED and status.reason == reason:
            return PoolCheck(None, may_run=False, reason=reason)
        return PoolCheck(PoolStatus(PoolState.DISABLED, reason, now), may_run=False, reason=reason)
    if status is None or status.state == PoolState.DISABLED:
        return PoolCheck(PoolStatus(PoolState.INITIAL, "", now), may_run=True, reason="")
    return PoolCheck(None, may_run=True, reason="")


def started(status: PoolStatus | None, *, now: float) -> PoolStatus | None:
    """After a backend was started and set up; None when the status says so already."""
    if status is not None and status.state == PoolState.READY and not status.reason:
        return None
    return PoolStatus(PoolState.READY, "", now)


def start_failed(status: PoolStatus | None, why: str, *, definite: bool, now: float) -> PoolStatus:
    """After a backend could not be started. A definite failure would only repeat itself."""
    if definite:
        return PoolStatus(PoolState.INOPERABLE, why, now)
    failures = _failures(status) + 1
    if failures >= MOST_PASSING_FAILURES:
        return PoolStatus(PoolState.INOPERABLE, f"{failures} starts in a row failed; the last: {why}", now)
    return PoolStatus(PoolState.INITIAL, f"{_FAILURES} {failures}: {why}", now)


def reset(*, now: float) -> PoolStatus:
    """By an operator: whatever was wrong is to be tried again."""
    return PoolStatus(PoolState.INITIAL, "", now)


def _failures(status: PoolStatus | None) -> int:
    """The failed starts in a row, which stand in the reason of INITIAL."""
    if status is None or status.state != PoolState.INITIAL or not status.reason.startswith(_FAILURES + " "):
        return 0
    number = status.reason.removeprefix(_FAILURES + " ").partition(":")[0]
    return int(number) if number.isdigit() else 0
