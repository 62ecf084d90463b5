"""A registry on real tables (SQLite) in a temporary directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from open_places import open_place

from tidegate.assembly import open_tables
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.ports import Tables
from tidegate.settings import Settings


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Where directories of pools can be made."""
    with open_place() as place:
        yield place


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


@pytest.fixture
def tables(data: Path) -> Iterator[Tables]:
    opened = open_tables(Settings(), data)
    yield opened
    opened.close()


@pytest.fixture
def registry(tables: Tables, data: Path) -> Registry:
    return Registry(tables, Vault.open(data), data, Settings())
