"""A thread of a process of workers, each of which works on its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event as Flag
from threading import Thread

from tidegate.core.errors import Unavailable

_PAUSE_SECONDS = 2.0

logger = logging.getLogger(__name__)


class WorkerThread(Thread):
    """Goes on when a server that it needs, or space on a disk, has been away for a while; any other fault ends the
    process, loudly."""

    def __init__(self, name: str, work: Callable[[], None], close: Callable[[], None], stop: Flag) -> None:
        super().__init__(name=name)
        self._work = work
        self._close = close
        self._stop_flag = stop
        self.failed = False

    def run(self) -> None:
        try:
            while not self._stop_flag.is_set():
                try:
                    self._work()
                except (Unavailable, OSError) as error:
                    logger.warning("the %s waits: %s", self.name, error)
                    self._stop_flag.wait(_PAUSE_SECONDS)
            with suppress(Unavailable):  # what it leaves behind expires by itself
                self._close()
        except BaseException:
            logger.exception("the %s failed", self.name)
            self.failed = True
            self._stop_flag.set()
