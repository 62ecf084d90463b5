"""Locations as operators see them, without their secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from tidegate.core.locations import Location
from tidegate.movement.locations import Locations
from tidegate.views import filled


class LocationView(BaseModel):
    """A location, without its secret."""

    name: str = Field(examples=["cold"])
    endpoint: str = Field(examples=["https://s3.example.org"])
    region: str
    bucket: str
    prefix: str
    access_key: str
    storage_classes: list[str] = Field(description="Objects of these classes move here.")
    ca_file: str = Field(description="Authorities that its certificate is checked against; empty: the system's.")
    concurrency: int
    bytes_per_second: int = Field(description="0: any.")
    source: Literal["settings", "tables"] = Field(description="Those of the settings cannot be removed by command.")
    created_at: datetime | None = Field(description="null: it comes from the settings.")


def view_location(locations: Locations, location: Location) -> LocationView:
    configured = locations.is_configured(location.name)
    given = {"created_at": None} if configured else {}
    return filled(
        LocationView,
        location,
        storage_classes=list(location.storage_classes),
        source="settings" if configured else "tables",
        **given,
    )
