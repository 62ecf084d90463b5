"""What operators see, filled from the records behind it by the names of the fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

from pydantic import BaseModel

_View = TypeVar("_View", bound=BaseModel)


def filled(view: type[_View], *sources: object, **given: object) -> _View:
    """Each field is given here, or is that of the first source that has it. Times in Unix seconds become dates."""
    for name, field in view.model_fields.items():
        source = next((source for source in sources if hasattr(source, name)), None)
        if name not in given and source is not None:
            value = getattr(source, name)
            is_time = field.annotation in (datetime, datetime | None) and isinstance(value, int | float)
            given[name] = datetime.fromtimestamp(value, UTC) if is_time else value
    return view(**given)
