"""The storage classes that rules may name are those of the locations in the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stored_locations import store_location

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.ports import Tables
from tidegate.settings import LifecycleSettings, LocationSettings
from tidegate.storage_classes import classes_in


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    opened = SqliteTables(tmp_path / "tables.db")
    yield opened
    opened.close()


def test_without_a_location_there_is_none(tables: Tables) -> None:
    assert classes_in(tables, LifecycleSettings(), {}) == ()


def test_they_come_in_the_order_of_the_settings_and_others_after_them(tables: Tables) -> None:
    store_location(tables, "archive", "DEEP_ARCHIVE", "TAPE")
    store_location(tables, "disks", "STANDARD_IA", "SHELF")
    assert classes_in(tables, LifecycleSettings(), {}) == ("STANDARD_IA", "DEEP_ARCHIVE", "TAPE", "SHELF")
    order = LifecycleSettings(storage_classes=("SHELF", "GLACIER", "TAPE"))
    assert classes_in(tables, order, {}) == ("SHELF", "TAPE", "DEEP_ARCHIVE", "STANDARD_IA")


def test_those_of_the_settings_count_and_are_the_oldest(tables: Tables) -> None:
    store_location(tables, "disks", "SHELF")
    configured = {"disks": LocationSettings(storage_classes=("SPIN",)), "tape": LocationSettings()}
    assert classes_in(tables, LifecycleSettings(), configured) == ("SPIN", "tape")
