"""The servers behind the adapters: started at the first test that needs them, stopped at the end."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import servers
from contract_processes import TablesAddress, TopicsAddress

from tidegate.ports import Tables, Topics


@pytest.fixture(scope="session")
def redis_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server.address


@pytest.fixture(scope="session")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.kafka_server(tmp_path_factory.mktemp("kafka")) as server:
        yield server.address


@pytest.fixture(params=["sqlite", "redis"])
def tables_address(request: pytest.FixtureRequest, tmp_path: Path) -> TablesAddress:
    """Empty tables of each kind, as something that other processes can open too."""
    if request.param == "sqlite":
        return TablesAddress("sqlite", str(tmp_path / "tables.db"))
    return TablesAddress("redis", f"redis://{request.getfixturevalue('redis_address')}/0", uuid.uuid4().hex)


@pytest.fixture
def tables(tables_address: TablesAddress) -> Iterator[Tables]:
    opened = tables_address.open()
    yield opened
    opened.close()


@pytest.fixture(params=["files", "kafka"])
def topics_address(request: pytest.FixtureRequest, tmp_path: Path) -> TopicsAddress:
    """Topics of each kind, none made yet, as something that other processes can open too."""
    if request.param == "files":
        return TopicsAddress("files", str(tmp_path / "topics"), lease_seconds=3.0)
    address = request.getfixturevalue("kafka_address")
    return TopicsAddress("kafka", address, f"{uuid.uuid4().hex[:8]}.", lease_seconds=2.0)


@pytest.fixture
def topics(topics_address: TopicsAddress) -> Iterator[Topics]:
    opened = topics_address.open()
    yield opened
    opened.close()
