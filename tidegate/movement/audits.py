"""Audits of locations: asked for, looked back on, and what they found. The same for the HTTP API and the command line.

An audit is an entry in the tables, `au:ID`. Whoever serves it writes there how far it is and what it found; the
findings themselves lie in the data directory, in `audits/ID`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from tidegate.core.codec import JsonRecord
from tidegate.jobs.job_list import JobList, JobStatus
from tidegate.movement.locations import Locations
from tidegate.ports import Tables
from tidegate.views import filled

FOLDER = "audits"
_ORPHANS, _MISSING = "orphans", "missing"


@dataclass(frozen=True, slots=True)
class LocationAudit(JsonRecord):
    """Times are in Unix seconds; 0: not yet. What is counted is told in `OrphanAuditView`."""

    PREFIX: ClassVar[str] = "au:"

    id: str
    location: str
    dry_run: bool
    requested_at: float
    status: JobStatus = JobStatus.WAITING
    ended_at: float = 0.0
    problem: str = ""
    listed: int = 0
    referenced: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    foreign: int = 0
    missing: int = 0
    sent: int = 0

    def begun(self) -> LocationAudit:
        return replace(self, status=JobStatus.RUNNING)

    def failed(self, problem: str, *, now: float) -> LocationAudit:
        return replace(self, status=JobStatus.FAILED, problem=problem, ended_at=now)


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
    status: JobStatus
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


def audits_in(tables: Tables, data: Path) -> JobList[LocationAudit]:
    """`data` is the data directory."""
    return JobList(tables, LocationAudit, "audit", data / FOLDER)


class LocationAudits:
    """`data` is the data directory."""

    def __init__(self, tables: Tables, data: Path) -> None:
        self._audits = audits_in(tables, data)

    def submit(self, locations: Locations, name: str, *, dry_run: bool) -> OrphanAuditView:
        """Asks for an audit; one runs at a time."""
        locations.get(name)
        return self._view(self._audits.submit(lambda audit_id, now: LocationAudit(audit_id, name, dry_run, now)))

    def show(self, audit_id: str, *, entries: int = 0) -> OrphanAuditView:
        audit = self._audits.get(audit_id)
        orphans, missing = (
            [filled(view, **row) for row in self._audits.first_found(audit_id, what, list(view.model_fields), entries)]
            for what, view in ((_ORPHANS, OrphanView), (_MISSING, MissingView))
        )
        return self._view(audit, first_orphans=orphans, first_missing=missing)

    def history(self, count: int) -> list[OrphanAuditView]:
        """The newest, the oldest of them first."""
        return [self._view(audit) for audit in self._audits.all()[-count:]]

    def wait(self, audit_id: str, watch: Callable[[JobStatus], None]) -> None:
        """Until it has ended."""
        self._audits.wait(audit_id, watch)

    def _view(self, audit: LocationAudit, **given: Any) -> OrphanAuditView:
        return filled(OrphanAuditView, audit, ended_at=audit.ended_at or None, **given)
