"""Worlds of pools that leave nothing over when their test ends."""

from __future__ import annotations

import tempfile
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


@pytest.fixture
def open_make() -> Iterator[Callable[..., World]]:
    """Worlds in a place that other users can reach."""
    with tempfile.TemporaryDirectory(prefix="tidegate-") as directory:
        Path(directory).chmod(0o755)
        made: list[World] = []

        def build(*overrides: str) -> World:
            place = Path(directory) / f"world{len(made)}"
            place.mkdir()
            made.append(make_world(place, *overrides))
            return made[-1]

        yield build
        for world in made:
            world.close()
