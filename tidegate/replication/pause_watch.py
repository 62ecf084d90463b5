"""Whether a site is paused, looked at about twice a second."""

from __future__ import annotations

import threading
import time

from tidegate.ports import Tables
from tidegate.replication.pauses import LOOK_SECONDS, current


class PauseWatch:
    """May be shared by threads."""

    def __init__(self, tables: Tables, site: str) -> None:
        self._tables = tables
        self._site = site
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._is_paused = False

    def is_paused(self) -> bool:
        with self._lock:
            if time.monotonic() >= self._looked_at + LOOK_SECONDS:
                self._is_paused = current(self._tables, self._site, now=time.time()) is not None
                self._looked_at = time.monotonic()
            return self._is_paused
