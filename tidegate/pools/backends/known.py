"""The backends that there are, by name."""

from __future__ import annotations

from tidegate.core.errors import InvalidInput
from tidegate.pools.backends import seaweedfs
from tidegate.pools.backends.base import Starter

_STARTERS: dict[str, Starter] = {"seaweedfs": seaweedfs.start}


def starter_of(backend: str) -> Starter:
    check_backend(backend)
    return _STARTERS[backend]


def check_backend(backend: str) -> str:
    if backend not in _STARTERS:
        raise InvalidInput(f"there is no backend {backend!r}: choose one of {', '.join(sorted(_STARTERS))}")
    return backend
