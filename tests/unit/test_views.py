"""Views are filled by the names of their fields: what is given counts first, and times become dates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import pytest
from pydantic import BaseModel, ValidationError

from tidegate.views import filled


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    colour: Colour
    created_at: float
    expires_at: float | None = None
    secret: str = "hidden"


class ThingView(BaseModel):
    name: str
    colour: str
    created_at: datetime
    expires_at: datetime | None
    count: int


THING = Thing("t", Colour.RED, 100_000_000_000.0)


def test_fields_come_from_the_sources_and_nothing_else_of_them_is_shown() -> None:
    view = filled(ThingView, THING, count=3)
    assert view.model_dump() == {
        "name": "t",
        "colour": "red",
        "created_at": datetime(5138, 11, 16, 9, 46, 40, tzinfo=UTC),
        "expires_at": None,
        "count": 3,
    }
    assert "hidden" not in view.model_dump_json()


def test_what_is_given_goes_before_a_source_and_a_source_before_the_next() -> None:
    other = Thing("other", Colour.RED, 1.0, 2.0)
    view = filled(ThingView, THING, other, name="given", count=0)
    assert (view.name, view.created_at.year, view.expires_at) == ("given", 5138, None)


def test_a_field_that_nobody_has_is_missed() -> None:
    with pytest.raises(ValidationError, match="count"):
        filled(ThingView, THING)
