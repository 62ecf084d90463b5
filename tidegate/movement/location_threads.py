"""Keeps a thread running for each location that wants one. Locations come and go while the process runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event as Flag

from tidegate.core.locations import Location
from tidegate.workers.worker_thread import WorkerThread

_LOOK_SECONDS = 3.0
_END_SECONDS = 30.0

# The locations by the names of their threads; None stands for a thread that belongs to no location.
Wanted = Mapping[str, Location | None]
Start = Callable[[Location | None, Flag], WorkerThread]


@dataclass(frozen=True, slots=True)
class _Running:
    """A thread as it was started for a location."""

    location: Location | None
    thread: WorkerThread
    stop: Flag

    def end(self) -> None:
        self.stop.set()
        self.thread.join(_END_SECONDS)


class LocationThreads:
    """`wanted` says what is to run now; `made` makes the thread of a location, which its flag ends. `round_done` is
    called after each look. For one thread."""

    def __init__(
        self,
        wanted: Callable[[], Wanted],
        made: Start,
        *,
        stop: Flag,
        round_done: Callable[[], None] = lambda: None,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._wanted = wanted
        self._made = made
        self._stop = stop
        self._round_done = round_done
        self._look_seconds = look_seconds
        self._running: dict[str, _Running] = {}

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once()
            self._stop.wait(self._look_seconds)

    def run_once(self) -> None:
        """Starts the threads of locations that were added or changed, and ends those of locations that are gone."""
        wanted = self._wanted()
        for name, running in list(self._running.items()):
            if running.thread.failed:
                raise RuntimeError(f"the {running.thread.name} failed")
            if name not in wanted or running.location != wanted[name]:
                self._running.pop(name).end()
        for name, location in wanted.items():
            if name not in self._running:
                self._running[name] = self._started(location)
        self._round_done()

    def close(self) -> None:
        for running in self._running.values():
            running.stop.set()
        for running in self._running.values():
            running.end()
        self._running.clear()

    def _started(self, location: Location | None) -> _Running:
        stop = Flag()
        thread = self._made(location, stop)
        thread.start()
        return _Running(location, thread, stop)
