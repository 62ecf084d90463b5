"""What only one pool may have: its directory (`bd:`) and its direct host name (`dn:`)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tidegate.core.errors import AlreadyExists, Conflict
from tidegate.core.records import Pool
from tidegate.lease import Lease
from tidegate.pools.catalogue import DIRECT_HOSTNAME, DIRECTORY
from tidegate.pools.directories import overlaps
from tidegate.ports import Tables
from tidegate.table_pages import every

_LOCK = "lk:places"
_LOCK_SECONDS = 30.0
_PATIENCE_SECONDS = 20.0


class Places:
    """A pool claims its places, within `held`, before its `po:` entry is written. So an entry of a pool that does not
    exist is left over from a creation that broke off, and is taken over."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def held(self) -> AbstractContextManager[None]:
        """One creation or deletion at a time, over all machines."""
        refusal = "other pools are being created or deleted; try again"
        return Lease(self._tables, _LOCK, seconds=_LOCK_SECONDS).held(
            patience_seconds=_PATIENCE_SECONDS, refusal=refusal
        )

    def claim(self, pool: Pool) -> None:
        self._take(DIRECTORY + pool.directory, pool.name, f"the directory {pool.directory} is used by pool")
        if pool.direct_hostname:
            self._take(DIRECT_HOSTNAME + pool.direct_hostname, pool.name, "that direct host name is used by pool")
        for key, holder in every(self._tables, DIRECTORY):
            other = key.removeprefix(DIRECTORY)
            if holder != pool.name and overlaps(other, pool.directory):
                raise AlreadyExists(f"the directory {pool.directory} overlaps {other}, which is used by pool {holder}")

    def confirm(self, pool: Pool) -> None:
        """After the `po:` entry is written: were we held up for so long that the lock expired?"""
        if not all(self._tables.get(key) == pool.name for key in _keys(pool)):
            raise Conflict(f"pool {pool.name} could not be created in time; try again")

    def release(self, pool: Pool, *, keeper: Pool | None = None) -> None:
        """All of the pool's places but those that `keeper`, of the same name, has."""
        kept = _keys(keeper) if keeper is not None else []
        for key in _keys(pool):
            if key not in kept:
                self._tables.compare_and_set(key, pool.name, None)

    def _take(self, key: str, pool: str, taken: str) -> None:
        while not self._tables.put_if_absent(key, pool):
            holder = self._tables.get(key)
            if holder == pool:
                return
            if holder is not None:
                if self._tables.get(Pool.PREFIX + holder) is not None:
                    raise AlreadyExists(f"{taken} {holder}")
                self._tables.compare_and_set(key, holder, None)


def _keys(pool: Pool) -> list[str]:
    keys = [DIRECTORY + pool.directory]
    return [*keys, DIRECT_HOSTNAME + pool.direct_hostname] if pool.direct_hostname else keys
