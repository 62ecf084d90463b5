"""The backend of a pool itself, past the gateway: its socket behind a port, and its one credential."""

from __future__ import annotations

from contextlib import closing
from functools import cache

from running_service import PoolKey, RunningService
from socket_forwarder import SocketForwarder

from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.records import BackendEntry
from tidegate.pools.vault import Vault


def direct_backend(service: RunningService, pool: str) -> tuple[str, PoolKey]:
    """The URL and the key of the pool's running backend."""
    settings = settings_module.restore((service.data / "run" / "settings.json").read_text())
    with closing(open_tables(settings, service.data)) as tables:
        entry = BackendEntry.from_json(tables.get(f"mn:{pool}") or "")
    secret = Vault.open(service.data).unseal(entry.admin_secret)
    return f"http://{_forwarder(entry.endpoint).address}", PoolKey(pool, entry.admin_key, secret)


@cache
def _forwarder(path: str) -> SocketForwarder:
    return SocketForwarder(path)
