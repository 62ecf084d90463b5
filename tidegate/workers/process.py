"""The skeleton of a process of workers: it is told to end by a signal, and ends its threads first."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from threading import Event as Flag

from tidegate.workers.worker_thread import WorkerThread

_END_SECONDS = 30.0


def stop_on_signals() -> Flag:
    """A flag that is set when the process is told to end."""
    stop = Flag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def run_threads(threads: Sequence[WorkerThread], stop: Flag, *, end_seconds: float = _END_SECONDS) -> int:
    """Runs them until the flag is set, be it by one that failed, and gives the exit code of the process."""
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join(end_seconds)
    return int(any(thread.failed for thread in threads))
