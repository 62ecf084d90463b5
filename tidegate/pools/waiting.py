"""How a manager waits: for time to pass or a signal to come, whichever is first."""

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
    """From now on signals are only taken by `wait`; done first, so that none ends the process by itself."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)


def wait(seconds: float) -> None:
    """Up to so many seconds, less when a signal comes. Raises `StopRequested`."""
    taken = signal.sigtimedwait(_AWAITED, max(0.0, seconds))
    if taken is not None and taken.si_signo in _STOPPING:
        raise StopRequested(f"stopped by {signal.Signals(taken.si_signo).name}")
