"""The backends of all pools, as a gateway process meets them: connected to, woken, and taken out of service."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from tidegate import metrics
from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.records import ManagerEntry
from tidegate.gateway.http.backend import BackendConnection, BackendGone, BackendPool, BackendSilent, ask
from tidegate.gateway.requests.directory import Directory, LocationView, Missing, PoolView
from tidegate.pools.catalogue import ENDPOINT
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.waking import wake
from tidegate.ports import Tables
from tidegate.settings import Settings

logger = logging.getLogger(__name__)

_HEALTH_SECONDS = 3.0
_CONNECT_TRIES = 3
_HEALTH_CHECK = b"GET / HTTP/1.1\r\nHost: tidegate\r\n\r\n"


class Backends:
    """`touch` is told of each pool that is woken."""

    def __init__(
        self,
        settings: Settings,
        data: Path,
        loop: asyncio.AbstractEventLoop,
        tables: Tables,
        directory: Directory,
        change_counter: ChangeCounter,
        touch: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._data = data
        self._loop = loop
        self._tables = tables
        self._directory = directory
        self._change_counter = change_counter
        self._touch = touch
        self._pools: dict[str, BackendPool] = {}
        self._authorities: dict[str, ssl.SSLContext] = {}
        self._suspects: set[str] = set()
        self._examinations: set[asyncio.Task[None]] = set()

    def at(self, address: str) -> BackendPool:
        """The connections to an address."""
        return self._pools.get(address) or self._made(address, address, None)

    def of_location(self, view: LocationView) -> BackendPool:
        """The connections to a location."""
        location = view.location
        name = f"{location.endpoint} {location.ca_file}"
        tls = self._tls(location.ca_file) if location.is_secure else None
        return self._pools.get(name) or self._made(name, view.address, tls)

    def _made(self, name: str, address: str, tls: ssl.SSLContext | None) -> BackendPool:
        settings = self._settings.gateway
        pool = self._pools[name] = BackendPool(
            address,
            connect_seconds=settings.backend_connect_seconds,
            keep=settings.backend_idle_connections,
            loop=self._loop,
            tls=tls,
        )
        return pool

    def _tls(self, ca_file: str) -> ssl.SSLContext:
        """Certificates are verified, by the authorities in the file or by those of the system."""
        context = self._authorities.get(ca_file)
        if context is None:
            try:
                context = ssl.create_default_context(cafile=ca_file or None)
            except OSError as error:
                raise Unavailable(f"the authorities in {ca_file} cannot be read: {error}") from None
            self._authorities[ca_file] = context
        return context

    async def connect(self, view: PoolView) -> tuple[BackendConnection, PoolView]:
        """A connection to the pool's backend, which is woken if it sleeps and replaced if it is gone."""
        tries = _CONNECT_TRIES
        while True:
            tries -= 1
            view = await self.awake(view)
            assert view.address is not None
            try:
                return await self.at(view.address).connect(), view
            except (BackendGone, BackendSilent) as error:
                metrics.BACKEND_ERRORS.labels("connect").inc()
                logger.warning("pool %s: %s", view.pool.name, error)
                await self.purge(view)
                if tries == 0:
                    raise

    async def awake(self, view: PoolView) -> PoolView:
        """The pool with the address of a running backend."""
        name = view.pool.name
        current = await self._current(name) or view
        if current.address is None:
            self._touch(name)
            metrics.BACKEND_WAKES.inc()
            started = self._loop.time()
            try:
                await wake(self._data, name, self._settings)
            except TidegateError:
                metrics.BACKEND_WAKE_FAILURES.inc()
                raise
            finally:
                metrics.BACKEND_WAKE_SECONDS.observe(self._loop.time() - started)
            self._directory.forget_pool(name)
            current = await self._current(name) or view
        if current.address is None:
            raise BackendGone(f"the backend of pool {name} stopped again right after it started")
        return current

    async def _current(self, name: str) -> PoolView | None:
        while True:
            try:
                return self._directory.pool(name)
            except Missing as missing:
                await self._directory.load(missing)  # and once more if something changed meanwhile

    async def purge(self, view: PoolView) -> None:
        """Takes the backend out of service: its manager, losing its entry, stops it; the next request starts one."""
        metrics.BACKEND_PURGES.inc()
        logger.warning("pool %s: the backend at %s is purged", view.pool.name, view.address)
        await self._loop.run_in_executor(None, self._purge, view)
        self._directory.forget_pool(view.pool.name)
        pool = self._pools.pop(view.address or "", None)
        if pool is not None:
            pool.close()

    def _purge(self, view: PoolView) -> None:
        mutex = ManagerEntry.PREFIX + view.pool.name
        text = self._tables.get(mutex)
        if text is not None and ManagerEntry.from_json(text).token == view.manager_token:
            self._tables.compare_and_set(mutex, text, None)
        if view.address is not None:
            self._tables.compare_and_set(ENDPOINT + view.pool.name, view.address, None)
        self._change_counter.bump()

    def suspect(self, view: PoolView) -> None:
        """A request went unanswered: if the backend does not answer a simple one either, it is purged."""
        if view.address is None or view.address in self._suspects:
            return
        self._suspects.add(view.address)
        task = self._loop.create_task(self._examine(view, view.address))
        self._examinations.add(task)
        task.add_done_callback(self._examinations.discard)

    async def _examine(self, view: PoolView, address: str) -> None:
        try:
            await ask(self.at(address), _HEALTH_CHECK, head_request=False, seconds=_HEALTH_SECONDS)
        except (BackendGone, BackendSilent):
            await self.purge(view)
        finally:
            self._suspects.discard(address)
