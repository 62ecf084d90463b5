"""The gate before all changes: it is closed while they could not be logged, or there is too little space for them.

A change that is made at a backend and then not logged is one that the client is not told of. So what can be known
beforehand is looked at beforehand: how much space is left where the log, the tables and the pool lie, and whether the
last attempt to write failed. What failed is tried every second, with something that does no harm, until it works.
Deletes, which make space, may use most of the reserve.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from tidegate import metrics
from tidegate.core.errors import Unavailable
from tidegate.space import free_bytes

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_FORGET_LOOKS = 300
# The share of the reserve that is kept even from deletes.
_LAST_SHARE = 0.25


class WriteGate:
    """`places` are those that every change needs. The probes raise `Unavailable` while changes cannot be noted down or
    logged; that of the log may take its time. For the event loop's thread, except `close`."""

    def __init__(
        self,
        places: Sequence[Path],
        reserve_bytes: int,
        *,
        probe_notes: Callable[[], None],
        probe_log: Callable[[], None],
    ) -> None:
        self._places = tuple(map(str, places))
        self._reserve = reserve_bytes
        self._probe_notes = probe_notes
        self._probe_log = probe_log
        self._failure = ""
        self._free: dict[str, int] = {}
        self._pools: dict[str, int] = {}  # to the number of looks since anybody asked
        self._scarce: frozenset[str] = frozenset()

    def check(self, pool: str, *, removes: bool, size: int = 0) -> None:
        """Raises `Unavailable` if a change to a pool in that directory, which brings so many bytes, could not be made
        and logged now."""
        if self._failure:
            raise Unavailable("changes cannot be logged at the moment")
        self._pools[pool] = 0
        if not self._scarce and size < self._free.get(pool, size + self._reserve) - self._reserve:
            return
        least = self._reserve * _LAST_SHARE if removes else self._reserve
        lacks = any(self._free.get(place, least) < least for place in self._places)
        if lacks or self._free.get(pool, least + size) < least + size:
            raise Unavailable("there is too little disk space for this change at the moment")

    def close(self, why: str) -> None:
        """An attempt to write has failed; for any thread."""
        if not self._failure:
            logger.error("changes are refused until they can be logged again: %s", why)
        self._failure = why

    async def run_forever(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Looks how much space there is, and whether what failed works again."""
        loop = asyncio.get_running_loop()
        for pool, looks in list(self._pools.items()):
            self._pools[pool] = looks + 1
            if looks > _FORGET_LOOKS:
                del self._pools[pool]
        places = (*self._places, *self._pools)
        self._take_in(await loop.run_in_executor(None, lambda: {place: free_bytes(place) for place in places}))
        if self._failure:
            tried = self._failure
            try:
                self._probe_notes()
                await loop.run_in_executor(None, self._probe_log)
            except Exception as error:  # whatever is wrong with the log, looking at it must go on
                logger.debug("changes still cannot be logged: %s", error)
            else:
                if self._failure is tried:  # nothing has failed since
                    self._failure = ""
                    logger.warning("changes can be logged again")
        metrics.WRITES_REFUSED.set(bool(self._failure) or any(place in self._scarce for place in self._places))

    def _take_in(self, found: dict[str, int | None]) -> None:
        """Where space cannot be looked at, there is no telling."""
        self._free = {place: free for place, free in found.items() if free is not None}
        scarce = frozenset(place for place, free in self._free.items() if free < self._reserve)
        for place in scarce - self._scarce:
            logger.error("%s: %d MiB are left; no data is taken in there", place, self._free[place] >> 20)
        for place in self._scarce - scarce:
            logger.warning("%s: there is enough space again", place)
        self._scarce = scarce
