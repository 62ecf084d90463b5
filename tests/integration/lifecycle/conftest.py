"""A service with days of ten seconds for each module: its passes would keep a core busy for as long as it runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lifecycle_world import DAY, World
from running_service import RunningService


@pytest.fixture(scope="module")
def world(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {
        "lifecycle.day_seconds": DAY,
        "lifecycle.interval_seconds": 2,
        "lifecycle.listing_limit": 7,
        "topics.lease_seconds": 3,
    }
    service = RunningService(tmp_path_factory.mktemp("lifecycle") / "data", settings)
    try:
        service.start()
        yield World(service, service.create_pool("lifecycle"))
    finally:
        service.end()
