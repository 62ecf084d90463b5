"""The storage classes that rules may name: those that locations serve. Without a location there is none."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidegate.core.locations import Location, served_classes
from tidegate.ports import Tables
from tidegate.settings import LifecycleSettings, LocationSettings
from tidegate.table_pages import every

Configured = Mapping[str, LocationSettings]
NONE_CONFIGURED: Configured = MappingProxyType({})


def locations_in(tables: Tables, configured: Configured) -> list[Location]:
    """Every location that there is, without the secrets of those in the settings (`configured`)."""
    found = {name: given.location(name, "") for name, given in configured.items()}
    for _, text in every(tables, Location.PREFIX):
        made = Location.from_json(text)
        found.setdefault(made.name, made)
    return list(found.values())


def classes_in(tables: Tables, settings: LifecycleSettings, configured: Configured) -> tuple[str, ...]:
    """The classes that can be moved to now, from the warmest to the coldest."""
    return served_classes(locations_in(tables, configured), settings.storage_classes)
