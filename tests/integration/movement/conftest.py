from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deletion_place import DeletionPlace
from deletion_store import DeletionStore

# Transitions share the days of lifecycle's tests.
sys.path.append(str(Path(__file__).parent.parent / "lifecycle"))


@pytest.fixture(scope="session")
def deletion_store(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeletionStore]:
    store = DeletionStore(tmp_path_factory.mktemp("deletion-store"))
    try:
        store.start()
        yield store
    finally:
        store.stop()


@pytest.fixture
def make_place(tmp_path: Path, deletion_store: DeletionStore) -> Iterator[Callable[..., DeletionPlace]]:
    made: list[DeletionPlace] = []

    def make(**deletion: Any) -> DeletionPlace:
        """Another one on the same tables and topics, if there is one already: as after a restart."""
        made.append(DeletionPlace(tmp_path, deletion_store, **deletion))
        return made[-1]

    yield make
    for place in made:
        place.close()


@pytest.fixture
def place(make_place: Callable[..., DeletionPlace]) -> DeletionPlace:
    return make_place()
