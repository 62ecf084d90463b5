"""The watch over a backend: is the manager still in charge, does the backend answer, does anybody use it?"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass

from tidegate.core import pool_states
from tidegate.core.errors import Unavailable
from tidegate.core.records import Pool, PoolStatus
from tidegate.lease import LeaseLost
from tidegate.pools.backends.base import LEAST_FREE_BYTES
from tidegate.pools.catalogue import LAST_ACCESS
from tidegate.pools.running import Running
from tidegate.pools.starting import is_permitted
from tidegate.pools.waiting import wait
from tidegate.space import free_bytes

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class End:
    """Why a backend is to stop, and whether its manager is still in charge."""

    why: str
    in_charge: bool = True


class Watch:
    """`run_once` looks at everything once and says why the backend is to stop, if so."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._settings = running.settings.pools
        self._failures = 0
        self._next_check = time.monotonic() + self._interval()
        self._last_access: str | None = None
        self._access_seen_at = time.monotonic()
        self._withdrawn = False
        self._missed = 0
        self._least_bytes = max((running.settings.storage.reserve_mb << 20) // 4, LEAST_FREE_BYTES)
        self._was_full = False

    def run(self) -> End:
        """Until the backend is to stop; says why. Raises `StopRequested`."""
        while True:
            end = self.run_once()
            if end is not None:
                return end
            wait(min(self._settings.watch_seconds, max(0.0, self._next_check - time.monotonic())))

    def run_once(self) -> End | None:
        code = self._running.backend.exit_code()
        if code is not None:
            return End(f"the backend ended by itself with code {code}")
        try:
            reachable = self._running.lease.keep()
            reason = self._look_at_tables() if reachable else None
        except LeaseLost as lost:
            return End(str(lost), in_charge=False)
        except Unavailable as error:
            log.warning("pool %s: the tables cannot be reached: %s", self._running.name, error)
            reason = None
        reason = reason or self._had_no_space() or self._check_backend()
        return End(reason) if reason is not None else None

    def _had_no_space(self) -> str | None:
        """A backend whose disk was full may take long to write again (SeaweedFS looks at its disk once a minute; until
        then its volumes stay read-only): it ends when there is space, and another is woken."""
        free = free_bytes(self._running.pool.directory)
        if free is None:
            return None
        if free < self._least_bytes:
            if not self._was_full:
                log.error("pool %s: %d MiB are left on its disk", self._running.name, free >> 20)
            self._was_full = True
        elif self._was_full and free >= 2 * self._least_bytes:
            return "its disk was full, and there is space again"
        return None

    def _look_at_tables(self) -> str | None:
        reason = self._disabled()
        if reason is not None:
            return reason
        if self._running.lacks_buckets():
            self._make_buckets()
        self._stay_published()
        return self._idle()

    def _stay_published(self) -> None:
        """Puts entries back that somebody removed, unless this was the first half of a purge."""
        if self._withdrawn or self._running.is_published():
            self._missed = 0
            return
        self._missed += 1
        if self._missed > 1:
            log.warning("pool %s: its entries were removed and are put back", self._running.name)
            self._running.publish()

    def _disabled(self) -> str | None:
        tables, name = self._running.tables, self._running.name
        text = tables.get(Pool.PREFIX + name)
        if text is None:
            return "the pool was deleted"
        pool, now = Pool.from_json(text), time.time()
        recorded = tables.get(PoolStatus.PREFIX + name)
        status = PoolStatus.from_json(recorded) if recorded is not None else None
        check = pool_states.judge(pool, status, owner_permitted=is_permitted(tables, pool.owner), now=now)
        if check.may_run:
            return None
        if check.status is not None:
            tables.put(PoolStatus.PREFIX + name, check.status.to_json())
        return f"the pool is not in service: {check.reason}"

    def _make_buckets(self) -> None:
        """Creates missing buckets. A backend that fails here fails its next health check, too."""
        try:
            self._running.make_buckets()
        except Unavailable as error:
            log.warning("pool %s: buckets could not be made: %s", self._running.name, error)

    def _idle(self) -> str | None:
        """Measures idleness by this process's monotonic clock: how long the access time has not changed."""
        if self._accessed():
            self._readmit()
            return None
        if time.monotonic() - self._access_seen_at < self._settings.idle_seconds:
            return None
        # New requests must not come to a backend that stops: it is withdrawn, gateways get time to say that they
        # had one under way, and only then it is certain.
        self._withdrawn = True
        self._running.withdraw()
        gateway = self._running.settings.gateway
        until = time.monotonic() + gateway.access_seconds + gateway.route_seconds
        while time.monotonic() < until:
            wait(min(self._settings.watch_seconds, max(0.01, until - time.monotonic())))
            self._running.lease.keep()
            if self._accessed():
                self._readmit()
                return None
        return f"there was no request for {self._settings.idle_seconds:.0f} s"

    def _readmit(self) -> None:
        if self._withdrawn:
            self._running.admit()
            self._withdrawn = False

    def _accessed(self) -> bool:
        """Whether there was a request since the last look."""
        text = self._running.tables.get(LAST_ACCESS + self._running.name)
        if text == self._last_access:
            return False
        self._last_access = text
        self._access_seen_at = time.monotonic()
        return True

    def _check_backend(self) -> str | None:
        if time.monotonic() < self._next_check:
            return None
        # Never so long that the lease could expire meanwhile.
        timeout = min(self._settings.heartbeat_timeout_seconds, self._settings.mutex_seconds / 3)
        try:
            self._running.backend.check(timeout)
            self._failures = 0
        except Unavailable as error:
            self._failures += 1
            log.warning("pool %s: check %d failed: %s", self._running.name, self._failures, error)
            if self._failures >= self._settings.heartbeat_tolerance:
                return f"the backend failed {self._failures} checks in a row"
        self._next_check = time.monotonic() + self._interval()
        return None

    def _interval(self) -> float:
        jitter = self._settings.heartbeat_jitter
        return self._settings.heartbeat_seconds * random.uniform(1 - jitter, 1 + jitter)
