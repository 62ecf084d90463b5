"""A data directory with pools whose managers and backends are real, at a quick pace."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from socket_forwarder import SocketForwarder

from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.errors import TidegateError
from tidegate.core.records import BackendEntry, ManagerEntry
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.pools.waking import start_pool
from tidegate.ports import Tables
from tidegate.settings import Settings

QUICK = (
    "pools.watch_seconds=0.1",
    "pools.heartbeat_seconds=0.3",
    "pools.heartbeat_timeout_seconds=1",
    "pools.heartbeat_tolerance=3",
    "pools.mutex_seconds=15",
    "pools.retry_seconds=0",
    "gateway.access_seconds=0.3",
    "gateway.route_seconds=0.1",
)


def wait_until(condition: Callable[[], Any], seconds: float = 90.0) -> Any:
    """Until it is true; fails after a time that only a broken system needs."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return value


def alive(pid: int) -> bool:
    """Whether it runs; one that is dead and not yet reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def backends_in(directory: str) -> list[int]:
    """Every server that works in the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                here = (entry / "cwd").readlink() == Path(directory)
                if here and (entry / "exe").readlink().name == "weed" and alive(int(entry.name)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@dataclass
class World:
    """A data directory with its registry."""

    data: Path
    settings: Settings
    tables: Tables
    registry: Registry

    def wake(self, pool: str) -> str:
        return start_pool(self.data, pool, self.settings)

    def manager(self, pool: str) -> ManagerEntry:
        return ManagerEntry.from_json(self.tables.get(f"ma:{pool}") or "null")

    def backend(self, pool: str) -> BackendEntry:
        return BackendEntry.from_json(self.tables.get(f"mn:{pool}") or "null")

    def pids(self, pool: str) -> tuple[int, int]:
        return self.manager(pool).pid, self.backend(pool).pid

    def sleeps(self, pool: str) -> bool:
        """Nothing in the tables says that the pool runs, and nothing runs."""
        entries = [self.tables.get(prefix + pool) for prefix in ("ma:", "mn:", "ep:")]
        return entries == [None, None, None] and not backends_in(self.registry.pool(pool).directory)

    def credential(self, pool: str) -> tuple[str, str]:
        """The one that the running backend knows."""
        entry = self.backend(pool)
        return entry.admin_key, Vault.open(self.data).unseal(entry.admin_secret)

    def client(self, pool: str) -> Any:
        """boto3 at the pool's backend, which is started if need be."""
        return client(self.wake(pool), self.credential(pool))

    def create(self, pool: str, *buckets: str, **options: Any) -> None:
        self.registry.create_pool(pool, now=time.time(), **options)
        for bucket in buckets:
            self.registry.create_bucket(bucket, pool, now=time.time())

    def close(self) -> None:
        for pool in self.registry.pools():
            try:
                self.registry.stop_pool(pool.name)
            except TidegateError:
                for pid in backends_in(pool.directory):
                    os.kill(pid, signal.SIGKILL)
        self.tables.close()


@cache
def forwarder(path: str) -> SocketForwarder:
    return SocketForwarder(path)


def client(endpoint: str, credentials: tuple[str, str] | None) -> Any:
    """boto3 without retries, at a backend's socket; without credentials it does not sign."""
    config = Config(
        retries={"max_attempts": 0},
        read_timeout=20,
        signature_version="s3v4" if credentials else UNSIGNED,
        s3={"addressing_style": "path"},
    )
    access_key, secret = credentials or (None, None)
    return boto3.client(
        "s3",
        endpoint_url=f"http://{forwarder(endpoint).address}",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=config,
    )


def make_world(data: Path, *overrides: str) -> World:
    data.chmod(0o755)
    settings = settings_module.load(data, overrides=(*QUICK, *overrides))
    run = data / "run"
    run.mkdir(mode=0o700)
    file = run / "settings.json"
    file.touch(mode=0o600)
    file.write_text(settings_module.dump(settings))
    tables = open_tables(settings, data)
    return World(data, settings, tables, Registry(tables, Vault.open(data), data, settings))
