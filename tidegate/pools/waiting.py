"""The manager's waits: each ends after a time or at a signal, whichever comes first."""

from __future__ import annotations

import signal

from tidegate.core.errors import TidegateError
from tidegate.pools.stopping import LOOK_NOW

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# SIGCHLD ends a wait because the backend may have ended.
_AWAITED = frozenset({*_STOPPING, signal.SIGCHLD, LOOK_NOW})


class StopRequested(TidegateError):
    """A signal asks the manager to end."""


def hold_signals() -> None:
    """Blocks signals, so that only `wait` takes them. Call it first."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)


def wait(seconds: float) -> None:
    """Up to so many seconds, less when a signal comes. Raises `StopRequested`."""
    taken = signal.sigtimedwait(_AWAITED, max(0.0, seconds))
    if taken is not None and taken.si_signo in _STOPPING:
        raise StopRequested(f"stopped by {signal.Signals(taken.si_signo).name}")
