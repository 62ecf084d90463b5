"""Housekeeping: trims topics and log files that grow while the service runs, whether lifecycle is on or off.

It is a thread of the API process, which always runs, and of which there is one.
"""

from __future__ import annotations

import logging
import time
from threading import Event as Flag
from threading import Thread

from tidegate.core.errors import TidegateError
from tidegate.lifecycle.retention import Retention
from tidegate.log_files import LogFiles
from tidegate.web.service import Service

_LOG_FILES_SECONDS = 30.0

logger = logging.getLogger(__name__)


class Housekeeping(Thread):
    def __init__(self, service: Service) -> None:
        super().__init__(name="housekeeping", daemon=True)
        self._retention = Retention(service.tables, service.topics, service.settings, service.directory.path)
        self._log_files = LogFiles(service.settings.log, service.directory.path)
        self._stop_flag = Flag()
        self._retained_at = 0.0

    def run(self) -> None:
        while True:
            try:
                self.run_once()
            except (TidegateError, OSError) as error:
                logger.warning("housekeeping could not do everything and tries again: %s", error)
            except Exception:
                logger.exception("housekeeping failed and tries again")
            if self._stop_flag.wait(min(self._retention.round_seconds, _LOG_FILES_SECONDS)):
                return

    def run_once(self) -> None:
        self._log_files.run_once()
        if time.monotonic() >= self._retained_at + self._retention.round_seconds or not self._retained_at:
            self._retained_at = time.monotonic()
            self._retention.run_once(time.time())

    def stop(self) -> None:
        """Stops the thread and waits a moment for it. Its work may be cut off anywhere."""
        self._stop_flag.set()
        self.join(1.0)
