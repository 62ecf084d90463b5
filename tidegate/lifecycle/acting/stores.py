"""The stores in which lifecycle acts: each bucket's pool, seen through the gateway with the pool's service key."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tidegate.core.backend_traits import traits_of
from tidegate.pools.registry import Registry
from tidegate.ports import Store

OpenStore = Callable[[str, str], Store]
Credentials = tuple[str, str]
_Identity = tuple[str, float]


class Stores:
    """`open_store` makes one from an access key and its secret. May be shared by threads."""

    def __init__(self, registry: Registry, open_store: OpenStore) -> None:
        self._registry = registry
        self._open = open_store
        self._lock = threading.Lock()
        self._making: dict[_Identity, threading.Lock] = {}
        self._credentials: dict[_Identity, Credentials] = {}
        self._stores: dict[_Identity, Store] = {}

    def of_pool(self, pool: str) -> Store:
        """Raises `NotFound` when there is no such pool (any more)."""
        identity = self._identity(pool)
        with self._lock:
            store = self._stores.get(identity)
        if store is not None:
            return store
        made = self._open(*self.credentials(pool))
        with self._lock:
            return self._stores.setdefault(identity, made)

    def credentials(self, pool: str) -> Credentials:
        """The access key and its secret with which `of_pool` sees the pool, for those who open a store elsewhere."""
        identity = self._identity(pool)
        with self._lock:
            making = self._making.setdefault(identity, threading.Lock())
        # One thread at a time: of several, one makes the key.
        with making:
            known = self._credentials.get(identity)
            if known is None:
                known = self._registry.service_key(pool, now=time.time())
                self._credentials[identity] = known
            return known

    def _identity(self, pool: str) -> _Identity:
        """A pool made anew under an old name has other keys."""
        return pool, self._registry.pool(pool).created_at

    def keeps_null_markers(self, pool: str) -> bool:
        return traits_of(self._registry.pool(pool).backend).keeps_null_markers

    def close(self) -> None:
        with self._lock:
            for store in self._stores.values():
                store.close()
            self._stores.clear()
