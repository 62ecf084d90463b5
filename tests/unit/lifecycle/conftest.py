"""Tables and topics on SQLite, a registry without running pools, and stores in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lifecycle_place import LifecyclePlace


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LifecyclePlace]:
    made = LifecyclePlace(tmp_path)
    yield made
    made.close()
