"""The places where the gateway's tests meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from places import Place
from running_service import RunningService


@pytest.fixture(scope="session")
def place(service: RunningService) -> Place:
    return Place(service, "gateway", "gateway-bucket")


@pytest.fixture(scope="session")
def tight(tmp_path_factory: pytest.TempPathFactory, _clean_environment: None) -> Iterator[Place]:
    """One gateway process that loses patience quickly, with direct host names and a list of trusted hosts."""
    service = RunningService(
        tmp_path_factory.mktemp("tight") / "data",
        {
            "gateway.processes": 1,
            "gateway.head_seconds": 1,
            "gateway.idle_seconds": 2,
            "gateway.stall_seconds": 2,
            "gateway.access_seconds": 0.5,
            "gateway.direct_domain": "direct.test",
            "gateway.trusted_hosts": '["127.0.0.1", "127.0.0.32/30"]',
        },
    )
    try:
        yield Place(service.start(), "tight", "tight-bucket", "--direct-hostname", "straight")
    finally:
        service.end()
