"""Worlds of pools that leave nothing over when their test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pool_world import World, make_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path)
    yield made
    made.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """A world with settings of its own."""
    made: list[World] = []

    def build(*overrides: str) -> World:
        directory = tmp_path / f"world{len(made)}"
        directory.mkdir()
        made.append(make_world(directory, *overrides))
        return made[-1]

    yield build
    for world in made:
        world.close()
