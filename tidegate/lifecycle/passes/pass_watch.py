"""What cuts a pass short: its time is over, its lock is lost, an operator stops lifecycle, or the process is told to
stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event as Flag
from types import TracebackType
from typing import Self

from tidegate.core.errors import Unavailable
from tidegate.lease import KeptLease
from tidegate.lifecycle.passes.pass_records import PassStatus

_LOOK_SECONDS = 0.25
_LOST = "the pass lock was lost: the tables did not answer in time"


class CutShort(Exception):
    """The pass must end now."""

    def __init__(self, status: PassStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class PassWatch:
    """Looks on in a thread while the block runs. `cancel` ends the job that runs, so that the pass sees why;
    `is_stopped` tells whether an operator has stopped lifecycle since the pass began."""

    def __init__(
        self,
        *,
        stop: Flag,
        lock: KeptLease,
        seconds: float,
        cancel: Callable[[], None],
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._stop = stop
        self._lock = lock
        self._ends_at = time.monotonic() + seconds
        self._minutes = seconds / 60
        self._cancel = cancel
        self._is_stopped = is_stopped
        self._over = Flag()
        self._thread = threading.Thread(target=self._look_on, name="pass-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def reason(self) -> CutShort | None:
        if self._stop.is_set():
            return CutShort(PassStatus.INTERRUPTED, "the service was stopped; the next pass goes on")
        if self._lock.lost:
            return CutShort(PassStatus.FAILED, _LOST)
        if self._is_stopped():
            return CutShort(PassStatus.INTERRUPTED, "lifecycle was stopped; it is planned again when it is resumed")
        if time.monotonic() >= self._ends_at:
            return CutShort(PassStatus.TIMEOUT, f"it took longer than {self._minutes:g} minutes; the next pass goes on")
        return None

    def check(self) -> None:
        reason = self.reason()
        if reason is not None:
            raise reason

    def check_lock(self) -> None:
        """For what must not be begun without the lock, and once begun is not cut short."""
        if self._lock.lost:
            raise CutShort(PassStatus.FAILED, _LOST)

    def pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _look_on(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            # Again and again: a job may begin right after the others were cancelled.
            with suppress(Unavailable):  # the tables do not answer just now; the pass will notice by itself
                if self.reason() is not None:
                    self._cancel()
