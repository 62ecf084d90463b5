from __future__ import annotations

from collections.abc import Iterator

import pytest
from replicated_world import ReplicatedWorld


@pytest.fixture(scope="session")
def replicated(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedWorld]:
    """A service with two sites, `one` and `two`, whose tries follow each other quickly."""
    world = ReplicatedWorld(tmp_path_factory.mktemp("replicated"))
    try:
        yield world.start()
    finally:
        world.stop()
