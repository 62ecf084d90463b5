"""The health check of a location: a small object is written, read, looked at and deleted."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from pydantic import BaseModel, Field

from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.locations import Location
from tidegate.core.pending_deletes import APPLICATION
from tidegate.core.placements import RESERVED_METADATA
from tidegate.core.xml import DeleteEntry
from tidegate.ports import Store

CHECKS = ".tidegate-check/"
_OWNER = RESERVED_METADATA + "application"


class CheckStep(BaseModel):
    """`message` says what went wrong, and is empty otherwise."""

    step: str = Field(description="connect, write, read, head or delete.")
    ok: bool
    milliseconds: float
    message: str = ""


class CheckResult(BaseModel):
    """What a health check found. Steps that were not reached are left out."""

    location: str
    ok: bool
    milliseconds: float
    message: str = Field(description="What went wrong; empty: nothing.")
    steps: list[CheckStep]


def check_store(location: Location, open_store: Callable[[], Store]) -> CheckResult:
    """Steps after a failed one are not taken, but what was written is deleted."""
    probe = _Probe(location, open_store)
    steps = [_taken("connect", probe.connect)]
    for name, act in (("write", probe.write), ("read", probe.read), ("head", probe.head)):
        if steps[-1].ok:
            steps.append(_taken(name, act))
    if probe.may_be_there:
        steps.append(_taken("delete", probe.delete))
    failed = next((step for step in steps if not step.ok), None)
    return CheckResult(
        location=location.name,
        ok=failed is None,
        milliseconds=round(sum(step.milliseconds for step in steps), 1),
        message=f"{failed.step}: {failed.message}" if failed else "",
        steps=steps,
    )


def _taken(name: str, act: Callable[[], None]) -> CheckStep:
    began = time.perf_counter()
    message = ""
    try:
        act()
    except TidegateError as error:
        message = str(error)
    spent = (time.perf_counter() - began) * 1000
    return CheckStep(step=name, ok=not message, milliseconds=round(spent, 1), message=message)


class _Probe:
    def __init__(self, location: Location, open_store: Callable[[], Store]) -> None:
        self._location = location
        self._open = open_store
        self._key = f"{location.prefix}{CHECKS}{secrets.token_hex(16)}"
        self._data = secrets.token_bytes(1024)
        self.may_be_there = False

    def connect(self) -> None:
        """Settings that cannot be used show here; the connection itself is made by the first request."""
        self._store = self._open()

    def write(self) -> None:
        self.may_be_there = True
        self._store.put(self._location.bucket, self._key, self._data, headers={_OWNER: APPLICATION})

    def read(self) -> None:
        with self._store.open(self._location.bucket, self._key) as stream:
            if b"".join(stream.chunks) != self._data:
                raise Unavailable("the location gave other data than was written")

    def head(self) -> None:
        """Deletion knows its data by this metadata: a store that drops it can be none."""
        found = self._store.head(self._location.bucket, self._key)
        if found is None:
            raise Unavailable("the location shows nothing where an object was written")
        if found.size != len(self._data):
            raise Unavailable(f"the location shows {found.size} bytes where {len(self._data)} were written")
        if found.headers.get(_OWNER) != APPLICATION:
            raise Unavailable("the location does not keep the metadata of objects")

    def delete(self) -> None:
        self._store.delete(self._location.bucket, DeleteEntry(self._key))
        if self._store.head(self._location.bucket, self._key) is not None:
            raise Unavailable("the location still shows an object that was deleted")
