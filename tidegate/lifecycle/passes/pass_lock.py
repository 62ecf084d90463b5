"""The pass lock: held by whoever starts or runs a pass."""

from __future__ import annotations

from tidegate.lease import Lease
from tidegate.ports import Tables

LOCK = "lifecycle/pass"


class PassLock(Lease):
    __slots__ = ()

    def __init__(self, tables: Tables, *, seconds: float) -> None:
        super().__init__(tables, LOCK, seconds=seconds)
