"""What movement needs to know of locations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.core.locations import Location
from tidegate.ports import Store


class KnownLocations(Protocol):
    """The locations that there are now. May be shared by threads."""

    def all(self) -> Sequence[Location]: ...

    def get(self, name: str) -> Location:
        """Raises `NotFound`."""

    def store(self, name: str) -> Store:
        """What stands behind a location. Raises `NotFound`."""
