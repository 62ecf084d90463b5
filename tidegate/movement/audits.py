"""Audits of locations: asked for, looked back on, and what they found. The same for the HTTP API and the command line.

An audit is an entry in the tables, `au:ID`. Whoever serves it writes there how far it is and what it found; the
findings themselves lie in the data directory, in `audits/ID`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from tidegate.core.codec import JsonRecord
from tidegate.core.errors import Conflict, NotFound, Unavailable
from tidegate.lifecycle.passes.pass_records import new_pass_id
from tidegate.movement.locations import Locations
from tidegate.pools.catalogue import every
from tidegate.ports import Tables
from tidegate.views import filled

FOLDER = "audits"
_ORPHANS, _MISSING = "orphans", "missing"
_MOST_KEPT = 30
_MOST_WAITING = 20
_POLL_SECONDS = 0.2


class AuditStatus(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"

    @property
    def has_ended(self) -> bool:
        return self in (AuditStatus.DONE, AuditStatus.FAILED)


@dataclass(frozen=True, slots=True)
class LocationAudit(JsonRecord):
    """Times are in Unix seconds; 0: not yet. What is counted is told in `OrphanAuditView`."""

    PREFIX = "au:"

    id: str
    location: str
    dry_run: bool
    requested_at: float
    status: AuditStatus = AuditStatus.WAITING
    ended_at: float = 0.0
    problem: str = ""
    listed: int = 0
    referenced: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    foreign: int = 0
    missing: int = 0
    sent: int = 0

    def failed(self, problem: str, *, now: float) -> LocationAudit:
        return replace(self, status=AuditStatus.FAILED, problem=problem, ended_at=now)


class OrphanView(BaseModel):
    """Data in a location that nothing refers to."""

    data_key: str
    size: int
    bucket: str = Field(description="Whose it was, as the data says; empty: it says nothing, and is left alone.")
    key: str
    version_id: str


class MissingView(BaseModel):
    """A version whose data is not where it should be."""

    bucket: str
    key: str
    version_id: str
    data_key: str


class OrphanAuditView(BaseModel):
    """An audit of a location, and what it found."""

    id: str
    location: str
    status: AuditStatus
    dry_run: bool
    requested_at: datetime
    ended_at: datetime | None
    problem: str = Field(description="Why it failed.")
    listed: int = Field(description="Pieces of data that lie in the location.")
    referenced: int = Field(description="Versions whose data should lie there.")
    orphans: int = Field(description="Pieces of data that nothing refers to, older than the grace.")
    orphan_bytes: int
    foreign: int = Field(description="Those of them that do not say whose they are, and are left alone.")
    sent: int = Field(description="Orphans that were handed to deletion.")
    missing: int = Field(description="Versions whose data is not there: damage.")
    first_orphans: list[OrphanView] = []
    first_missing: list[MissingView] = []


class LocationAudits:
    """`data` is the data directory."""

    def __init__(self, tables: Tables, data: Path) -> None:
        self._tables = tables
        self._data = data

    def submit(self, locations: Locations, name: str, *, dry_run: bool) -> OrphanAuditView:
        """Asks for an audit; one runs at a time."""
        locations.get(name)
        waiting = [audit for audit in self._all() if not audit.status.has_ended]
        if len(waiting) >= _MOST_WAITING:
            raise Conflict(f"{_MOST_WAITING} audits wait already; ask again when some have ended")
        now = time.time()
        audit = LocationAudit(new_pass_id(int(now * 1e9)), name, dry_run, now)
        self.put(audit)
        return self._view(audit)

    def show(self, audit_id: str, *, entries: int = 0) -> OrphanAuditView:
        audit = self.get(audit_id)
        orphans = [filled(OrphanView, **row) for row in self._first(audit_id, _ORPHANS, OrphanView, entries)]
        missing = [filled(MissingView, **row) for row in self._first(audit_id, _MISSING, MissingView, entries)]
        return self._view(audit, first_orphans=orphans, first_missing=missing)

    def history(self, count: int) -> list[OrphanAuditView]:
        """The newest, the oldest of them first."""
        return [self._view(audit) for audit in self._all()[-count:]]

    def wait(self, audit_id: str, watch: Callable[[AuditStatus], None]) -> None:
        """Until it has ended."""
        while not (audit := self.get(audit_id)).status.has_ended:
            watch(audit.status)
            time.sleep(_POLL_SECONDS)

    # --- for whoever serves them -----------------------------------------------------------------

    def get(self, audit_id: str) -> LocationAudit:
        text = self._tables.get(LocationAudit.PREFIX + audit_id)
        if text is None:
            raise NotFound(f"there is no audit {audit_id}")
        return LocationAudit.from_json(text)

    def put(self, audit: LocationAudit) -> None:
        self._tables.put(LocationAudit.PREFIX + audit.id, audit.to_json())

    def with_status(self, status: AuditStatus) -> list[LocationAudit]:
        """The oldest first."""
        return [audit for audit in self._all() if audit.status is status]

    def folder(self, audit_id: str) -> Path:
        return self._data / FOLDER / audit_id

    def prune(self) -> None:
        """Keeps the newest, and what they found."""
        ended = [audit.id for audit in self._all() if audit.status.has_ended]
        for audit_id in ended[:-_MOST_KEPT]:
            self._tables.delete(LocationAudit.PREFIX + audit_id)
        known = {audit.id for audit in self._all()}
        for folder in (self._data / FOLDER).glob("*"):
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)

    def _all(self) -> list[LocationAudit]:
        return [LocationAudit.from_json(text) for _, text in every(self._tables, LocationAudit.PREFIX)]

    def _view(self, audit: LocationAudit, **given: Any) -> OrphanAuditView:
        return filled(OrphanAuditView, audit, ended_at=audit.ended_at or None, **given)

    def _first(self, audit_id: str, what: str, view: type[BaseModel], count: int) -> Iterator[dict[str, Any]]:
        """The first findings, read from the files; the audit may hold any number of them."""
        if not count:
            return
        import pyarrow.lib  # only here: it takes long to load, and few commands need it
        import pyarrow.parquet as pq

        for file in sorted((self.folder(audit_id) / what).glob("*.parquet")):
            try:
                for batch in pq.ParquetFile(file).iter_batches(count, columns=list(view.model_fields)):
                    rows = batch.slice(0, count).to_pylist()
                    yield from rows
                    count -= len(rows)
                    if not count:
                        return
            except FileNotFoundError:  # old audits are removed
                continue
            except (OSError, pyarrow.lib.ArrowException) as error:
                raise Unavailable(f"the findings in {file} cannot be read: {error}") from None
