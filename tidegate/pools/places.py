"""What only one pool may have: its directory (`bd:`) and its direct host name (`dn:`)."""

from __future__ import annotations

from tidegate.core.errors import AlreadyExists, Conflict
from tidegate.core.records import Pool
from tidegate.pools import catalogue
from tidegate.pools.catalogue import DIRECT_HOSTNAME, DIRECTORY
from tidegate.pools.directories import overlaps
from tidegate.ports import Tables


class Places:
    """A pool claims its places before its `po:` entry is written. An entry of a pool that does not exist is left over
    from a creation that broke off, and can be taken over; `confirm` then keeps two from sharing a place."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def claim(self, pool: Pool) -> None:
        self._take(DIRECTORY + pool.directory, pool.name, f"the directory {pool.directory} is used by pool")
        if pool.direct_hostname:
            self._take(DIRECT_HOSTNAME + pool.direct_hostname, pool.name, "that direct host name is used by pool")
        # After the own entry is written: of two that overlap and come at once, at least one sees the other.
        for key, holder in catalogue.every(self._tables, DIRECTORY):
            other = key.removeprefix(DIRECTORY)
            if holder != pool.name and overlaps(other, pool.directory):
                raise AlreadyExists(f"the directory {pool.directory} overlaps {other}, which is used by pool {holder}")

    def confirm(self, pool: Pool) -> None:
        """After the `po:` entry is written."""
        if not all(self._tables.get(key) == pool.name for key in _keys(pool)):
            raise Conflict(f"pool {pool.name} was created twice at once; try again")

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
