"""The ways of this service's pool, and the contents that clients send over them."""

from __future__ import annotations

import random

import pytest
from running_service import PoolKey, RunningService
from ways import MIB, Files, Way, Ways

from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.records import BackendEntry
from tidegate.pools.vault import Vault


@pytest.fixture(scope="session")
def ways(service: RunningService) -> Ways:
    key = service.create_pool("clients")
    gateway = Way("gateway", service.s3_url, key)
    gateway.s3().create_bucket(Bucket="clients-waker")
    tables = open_tables(settings_module.restore((service.data / "run" / "settings.json").read_text()), service.data)
    entry = BackendEntry.from_json(tables.get(f"mn:{key.pool}") or "")
    tables.close()
    admin = PoolKey(key.pool, entry.admin_key, Vault.open(service.data).unseal(entry.admin_secret))
    return Ways(gateway, Way("direct", f"http://{entry.endpoint}", admin))


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("files")
    sizes = {"one-byte": 1, "five-mib": 5 * MIB, "hundred-mib": 100 * MIB}
    rng = random.Random(1)
    for name, size in sizes.items():
        (directory / name).write_bytes((rng.randbytes(min(size, MIB)) * (size // MIB + 1))[:size])
    return Files(directory, sizes)
