"""The start of a backend: check if it may run, take the lease, await the end of the old one, start, set up, publish."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate.core import pool_states
from tidegate.core.errors import InvalidInput, TidegateError, Unavailable
from tidegate.core.records import BackendEntry, ManagerEntry, Pool, PoolState, PoolStatus, User
from tidegate.lease import LeaseLost
from tidegate.pools.backends.base import Backend, Launch, StartFailed
from tidegate.pools.backends.known import starter_of
from tidegate.pools.backends.socket_directory import SocketDirectory
from tidegate.pools.catalogue import ENDPOINT, LAST_ACCESS
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.manager_lease import ManagerLease
from tidegate.pools.owners import default_owner, find_account
from tidegate.pools.pool_lock import PoolLock
from tidegate.pools.running import Running
from tidegate.pools.vault import Vault
from tidegate.pools.waiting import wait
from tidegate.ports import Tables
from tidegate.settings import Settings

_POLL_SECONDS = 0.1
_MARGIN_SECONDS = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no backend, for this reason."""

    why: str
    retry_after: float


class Starting:
    def __init__(self, tables: Tables, vault: Vault, data: Path, pool: str, settings: Settings) -> None:
        self._tables = tables
        self._vault = vault
        self._data = data
        self._name = pool
        self._settings = settings
        self._changes = ChangeCounter(data)
        self._lease = ManagerLease(tables, pool, seconds=settings.pools.mutex_seconds)
        self._lock = PoolLock(data, pool)
        self._deadline = time.monotonic() + settings.pools.start_seconds

    def run(self) -> Running | Refused | str:
        """The backend it started, the endpoint of one that another manager runs, or why there is none."""
        while True:
            refusal = self._judge()
            if refusal is not None:
                return refusal
            if self._lease.try_acquire():
                return self._start_in_charge()
            found = self._await_other()
            if found is not None:
                return found

    # --- is it to run ----------------------------------------------------------------------------

    def _pool(self) -> Pool | None:
        text = self._tables.get(Pool.PREFIX + self._name)
        return Pool.from_json(text) if text is not None else None

    def _status(self) -> PoolStatus | None:
        text = self._tables.get(PoolStatus.PREFIX + self._name)
        return PoolStatus.from_json(text) if text is not None else None

    def _record(self, status: PoolStatus | None) -> None:
        if status is not None:
            self._tables.put(PoolStatus.PREFIX + self._name, status.to_json())
            self._changes.bump()

    def _judge(self) -> Refused | None:
        pool = self._pool()
        if pool is None:
            return Refused(f"there is no pool {self._name}", 60)
        status, now = self._status(), time.time()
        check = pool_states.judge(pool, status, owner_permitted=is_permitted(self._tables, pool.owner), now=now)
        self._record(check.status)
        if not check.may_run:
            return Refused(f"the pool is not in service: {check.reason}", 60)
        return self._pause_after_failure(status, now)

    def _pause_after_failure(self, status: PoolStatus | None, now: float) -> Refused | None:
        if status is None or status.state != PoolState.INITIAL or not status.reason:
            return None
        left = self._settings.pools.retry_seconds - (now - status.modified_at)
        if 0 < left <= self._settings.pools.retry_seconds:  # otherwise the clock was set back
            return Refused(status.reason, left)
        return None

    # --- somebody else is in charge --------------------------------------------------------------

    def _await_other(self) -> Refused | str | None:
        """Returns the endpoint that the other manager publishes, or None when that manager has ended."""
        # Says that the pool is wanted, should the other be about to stop for lack of requests.
        self._tables.put(LAST_ACCESS + self._name, repr(time.time()))
        while time.monotonic() < self._deadline:
            endpoint = self._tables.get(ENDPOINT + self._name)
            manager = self._tables.get(ManagerEntry.PREFIX + self._name)
            if manager is None:
                return None
            if endpoint is not None:
                return endpoint
            wait(_POLL_SECONDS)
        return Refused("another manager is starting the backend and takes too long", self._settings.pools.retry_seconds)

    # --- this one is -----------------------------------------------------------------------------

    def _start_in_charge(self) -> Running | Refused:
        try:
            self._clear_stale_entries()
            self._await_lock()
            running = self._start_running()
        except StartFailed as failure:
            return self._failed(failure)
        except TidegateError:
            self._let_go()
            raise
        try:
            running.make_buckets()
            self._lease.keep()
            running.publish()
            self._record(pool_states.started(self._status(), now=time.time()))
        except TidegateError as error:
            running.stop()
            if isinstance(error, Unavailable) and not isinstance(error, LeaseLost):
                return self._failed(StartFailed(f"the backend could not be set up: {error}"))
            raise
        return running

    def _failed(self, failure: StartFailed) -> Refused:
        now = time.time()
        status = pool_states.start_failed(self._status(), str(failure), definite=failure.definite, now=now)
        log.error("pool %s does not start: %s", self._name, failure)
        self._record(status)
        self._let_go()
        return Refused(str(failure), self._settings.pools.retry_seconds)

    def _let_go(self) -> None:
        self._lock.release()
        try:
            self._lease.release()
        except Unavailable as error:
            log.warning("pool %s: the manager's entry has to expire by itself: %s", self._name, error)

    def _clear_stale_entries(self) -> None:
        """Removes entries of a manager that was killed, whose backend died with it."""
        if self._tables.delete(ENDPOINT + self._name):
            self._changes.bump()

    def _await_lock(self) -> None:
        """Until the manager before has ended with its backend. One that does not end by itself is killed, and its
        backend dies with it."""
        patience = time.monotonic() + self._settings.pools.stop_seconds + self._settings.pools.watch_seconds
        while not self._lock.try_acquire():
            holder = self._lock.holder()
            if time.monotonic() > patience + _MARGIN_SECONDS and holder is not None:
                log.warning("pool %s: the manager %d does not end and is killed", self._name, holder)
                _kill(holder)
            self._pause(_POLL_SECONDS)
        self._kill_stale_backend()

    def _kill_stale_backend(self) -> None:
        text = self._tables.get(BackendEntry.PREFIX + self._name)
        pool = self._pool()
        if text is None or pool is None:
            return
        entry = BackendEntry.from_json(text)
        if entry.host == socket.gethostname() and _runs_in(entry.pid, pool.directory):
            log.warning("pool %s: the backend %d was left over and is killed", self._name, entry.pid)
            _kill(entry.pid)
            while _runs_in(entry.pid, pool.directory):
                self._pause(_POLL_SECONDS)
        self._tables.compare_and_set(BackendEntry.PREFIX + self._name, text, None)

    def _start_running(self) -> Running:
        pool = self._pool()
        if pool is None:
            raise StartFailed("the pool was deleted")
        admin = (secrets.token_hex(10).upper(), secrets.token_hex(20))
        backend = self._start_backend(pool, admin)
        return Running(
            tables=self._tables,
            vault=self._vault,
            settings=self._settings,
            changes=self._changes,
            pool=pool,
            lease=self._lease,
            lock=self._lock,
            backend=backend,
            admin=admin,
        )

    def _start_backend(self, pool: Pool, admin: tuple[str, str]) -> Backend:
        settings = self._settings.pools
        try:
            pool = self._without_root(pool)
            account = find_account(pool.owner, pool.group)
            starter = starter_of(pool.backend)
        except InvalidInput as error:
            raise StartFailed(str(error), definite=True) from None
        return starter(
            Launch(
                pool=pool.name,
                directory=Path(pool.directory),
                account=account,
                log_file=self._data / "log" / f"pool-{pool.name}.log",
                socket=SocketDirectory(self._data, pool.name),
                isolation=settings.isolation,
                ports=(settings.port_low, settings.port_high),
                memory_limit_mb=settings.memory_limit_mb,
                admin_key=admin[0],
                admin_secret=admin[1],
                pause=self._pause,
            )
        )

    def _without_root(self, pool: Pool) -> Pool:
        """A pool that an earlier version made for root becomes the service account's, once its directory is."""
        if pool.owner != "root":
            return pool
        account = find_account(default_owner(self._settings.service.account), "")
        if Path(pool.directory).lstat().st_uid != account.uid:
            raise InvalidInput(
                f"the pool belongs to root, and no backend runs as root. Give it away and try again: "
                f"chown -R {account.user}:{account.group} {pool.directory} && tidegate pool reset {pool.name}"
            )
        given = replace(pool, owner=account.user, group=account.group)
        self._tables.compare_and_set(Pool.PREFIX + pool.name, pool.to_json(), given.to_json())
        return given

    def _pause(self, seconds: float) -> None:
        """Every wait of a start: keeps the lease, heeds signals, ends in time."""
        if time.monotonic() > self._deadline:
            raise StartFailed(f"the backend was not ready after {self._settings.pools.start_seconds:.0f} s")
        self._lease.keep()
        wait(seconds)


def is_permitted(tables: Tables, owner: str) -> bool:
    text = tables.get(User.PREFIX + owner)
    return User.from_json(text).permitted if text is not None else True


def _runs_in(pid: int, directory: str) -> bool:
    """Whether the process works in the pool's directory, as its backend does, and no later one with its number."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == Path(directory)
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
