"""What an event says of the version that it made and the plan and the object task repeat.

A field that is added here is one of the event, of the log table, of the plan and of the object task.
"""

from __future__ import annotations

from msgspec import Struct


class VersionAttributes(Struct, frozen=True, kw_only=True):
    size: int | None = None
    etag: str = ""
