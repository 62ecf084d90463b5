"""How a copy at a site says that it is one: by metadata, which every store keeps with an object."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.pending_deletes import KEY_HEADER, Component, key_text
from tidegate.core.placements import RESERVED_METADATA

COMPONENT_HEADER = RESERVED_METADATA + "component"
_HEADER, _REPLICA = COMPONENT_HEADER.encode(), Component.REPLICA.encode()


def is_replica(headers: Mapping[bytes, bytes]) -> bool:
    """Of an object with these headers, their names in lower case."""
    return headers.get(_HEADER, b"").strip() == _REPLICA


def is_shown_as_replica_of(headers: Mapping[str, str], key: str) -> bool:
    """Of an object with this key. One that a client copied from a replica has its metadata, and mostly another key."""
    return is_shown_as_replica(headers) and headers.get(KEY_HEADER, "") == key_text(key)


def is_shown_as_replica(headers: Mapping[str, str]) -> bool:
    """The same of headers that are text."""
    return headers.get(COMPONENT_HEADER, "").strip() == Component.REPLICA
