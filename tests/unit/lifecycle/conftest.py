"""Tables and topics on SQLite, a registry without running pools, stores in memory, and the Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lifecycle_place import LifecyclePlace
from spark_session import spark

__all__ = ["spark"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LifecyclePlace]:
    made = LifecyclePlace(tmp_path)
    yield made
    made.close()
