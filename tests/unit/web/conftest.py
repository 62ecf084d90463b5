"""One API process for all tests of the web, and pools of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from api_process import Api, serving

_names = itertools.count(1)


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    yield from serving(tmp_path_factory.mktemp("api") / "data")


@pytest.fixture
def client(api: Api) -> Iterator[httpx.Client]:
    with api.client() as made:
        yield made


@pytest.fixture
def pool(client: httpx.Client) -> dict[str, Any]:
    reply = client.post("/api/v1/pools", json={"name": f"pool-{next(_names)}"})
    assert reply.status_code == 201, reply.text
    created: dict[str, Any] = reply.json()
    return created
