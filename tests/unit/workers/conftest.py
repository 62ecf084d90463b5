from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from storage import Storage


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    made = Storage(tmp_path)
    yield made
    made.close()
