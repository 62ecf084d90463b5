"""The order of changes to one key, over gateways on several machines.

On each machine the processes share the locks of `KeyLocks`; whoever has one there takes its entry in the tables as
well: `or:NUMBER`, a lease that is renewed while it is held. `ot:NUMBER` is the last time given out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from tidegate.core.errors import TidegateError, Unavailable
from tidegate.gateway.changes.key_locks import FIRST_PAUSE, LONGEST_PAUSE, KeyLocks
from tidegate.lease import Lease
from tidegate.ports import Tables

logger = logging.getLogger(__name__)

LEASE_SECONDS = 15.0
_RENEW_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 60.0
# The last time given out matters as long as a clock may be behind it.
_TIME_SECONDS = 7 * 86400.0
_THREADS = 16

Answer = TypeVar("Answer")


class SharedKeyLocks(KeyLocks):
    def __init__(self, file: Path, tables: Tables) -> None:
        super().__init__(file)
        self._tables = tables
        self._token = secrets.token_hex(8)
        self._held: dict[int, int] = {}  # lock number to the last time given out
        self._releases: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="order")
        self._renewal: asyncio.Task[None] | None = None

    def try_acquire(self, number: int) -> bool:
        """The tables cannot be asked without waiting."""
        return False

    async def acquire(self, number: int) -> None:
        await super().acquire(number)
        try:
            self._held[number] = await self._take(number)
        except BaseException:
            super().release(number)
            raise
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _take(self, number: int) -> int:
        deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
        pause = FIRST_PAUSE
        while (last := await self._try_to_take(number)) is None:
            if time.monotonic() > deadline:
                raise Unavailable("another machine has been changing this key for too long")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return last

    async def _try_to_take(self, number: int) -> int | None:
        """The last time given out, if the entry could be set. Who stops waiting meanwhile leaves none behind."""
        trying = asyncio.ensure_future(self._call(partial(self._put, number)))
        try:
            return await asyncio.shield(trying)
        except asyncio.CancelledError:
            with contextlib.suppress(TidegateError):  # then the entry expires
                if await trying is not None:
                    await self._call(self._lease(number).release)
            raise

    def _put(self, number: int) -> int | None:
        lease = self._lease(number)
        if not lease.try_acquire():
            return None
        try:
            return self._last_time(number)
        except TidegateError:
            with contextlib.suppress(TidegateError):  # then the entry expires
                lease.release()
            raise

    def _last_time(self, number: int) -> int:
        return int(self._tables.get(f"ot:{number}") or 0)

    def _lease(self, number: int) -> Lease:
        """All of this process have one token: nobody else here has the lock."""
        return Lease(self._tables, f"or:{number}", self._token, seconds=LEASE_SECONDS)

    def next_time(self, number: int, now_ns: int) -> int:
        given = super().next_time(number, max(now_ns, self._held[number] + 1))
        self._held[number] = given
        return given

    def release(self, number: int) -> None:
        last = self._held.pop(number)
        task = asyncio.get_running_loop().create_task(self._give_back(number, last))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def _give_back(self, number: int, last: int) -> None:
        try:
            await self._call(partial(self._write_time, number, last))
            await self._call(self._lease(number).release)
        except TidegateError as error:
            logger.warning("key lock %d could not be given back and will expire: %s", number, error)
        finally:
            super().release(number)

    def _write_time(self, number: int, last: int) -> None:
        """Never back: who held the lock for longer than the entry lived may have been overtaken."""
        self._tables.put(f"ot:{number}", str(max(last, self._last_time(number))), expires_in=_TIME_SECONDS)

    async def _renew(self) -> None:
        """A backend may take longer to answer than an entry lives."""
        while self._held:
            await asyncio.sleep(_RENEW_SECONDS)
            for number in list(self._held):
                with contextlib.suppress(TidegateError):  # tried again in time, or the entry expires
                    await self._call(self._lease(number).renew)

    async def _call(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def all_released(self) -> None:
        """Returns when every lock has been given back."""
        if self._releases:
            await asyncio.wait(set(self._releases))

    def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        self._threads.shutdown()
        super().close()
