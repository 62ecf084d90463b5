"""The ways of this service's pool, and the contents that clients send over them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from metadata_log import MetadataLog
from running_service import RunningService
from syncs import Forest
from ways import MIB, Files, Way, Ways


@pytest.fixture(scope="session")
def ways(service: RunningService) -> Ways:
    key = service.create_pool("clients")
    gateway = Way("gateway", service.s3_url, key)
    gateway.s3().create_bucket(Bucket="clients-waker")
    return Ways(service, gateway, "clients-waker")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("files")
    sizes = {"one-byte": 1, "five-mib": 5 * MIB, "hundred-mib": 100 * MIB}
    rng = random.Random(1)
    for name, size in sizes.items():
        (directory / name).write_bytes((rng.randbytes(min(size, MIB)) * (size // MIB + 1))[:size])
    return Files(directory, sizes)


@pytest.fixture(scope="session")
def gateway(ways: Ways) -> Way:
    """For clients of which only the gateway's answers are of interest."""
    return ways.gateway


@pytest.fixture(scope="session")
def log(service: RunningService) -> Iterator[MetadataLog]:
    opened = MetadataLog(service)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def forest(gateway: Way, tmp_path_factory: pytest.TempPathFactory) -> Forest:
    return Forest(gateway, tmp_path_factory.mktemp("forest"))
