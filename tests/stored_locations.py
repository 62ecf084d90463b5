"""Locations in the tables, for tests in which their names and storage classes count, and nothing is moved to them."""

from __future__ import annotations

from contextlib import closing

from metadata_log import settings_of
from running_service import RunningService

from tidegate.assembly import open_tables
from tidegate.core.locations import Location
from tidegate.ports import Tables


def store_location(tables: Tables, name: str, *storage_classes: str) -> Location:
    """Nothing answers at its endpoint."""
    made = Location(name, "http://127.0.0.1:9", name, "key", "sealed", 1.0, storage_classes=storage_classes or (name,))
    tables.put(Location.PREFIX + name, made.to_json())
    return made


def store_location_of(service: RunningService, name: str, *storage_classes: str) -> None:
    """In the tables of the service."""
    with closing(open_tables(settings_of(service), service.data)) as tables:
        store_location(tables, name, *storage_classes)
