"""A service with days of ten seconds, in which passes begin when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lifecycle_world import DAY, World
from running_service import RunningService

# The log is kept for 4000 seconds. Rules must not need more, together with the time until the next pass.
INTERVAL = 600


@pytest.fixture(scope="session")
def world(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {
        "lifecycle.day_seconds": DAY,
        "lifecycle.interval_seconds": INTERVAL,
        "lifecycle.listing_limit": 7,
        "topics.lease_seconds": 3,
    }
    service = RunningService(tmp_path_factory.mktemp("lifecycle") / "data", settings)
    try:
        service.start()
        yield World(service, service.create_pool("lifecycle"), asks=True)
    finally:
        service.end()
