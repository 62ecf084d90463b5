"""Backfills and verifications: asked for, followed, and what they found. By HTTP API and command line alike.

A job is an entry in the tables, `rj:ID`; its findings lie in the data directory, in `replication-jobs/ID`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from tidegate.core.codec import JsonRecord
from tidegate.core.errors import InvalidInput, NotFound
from tidegate.core.records import Bucket
from tidegate.core.replication.records import OPEN, OpenVersion, Status
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.jobs.job_list import JobList, JobStatus
from tidegate.ports import Tables
from tidegate.views import filled

FOLDER = "replication-jobs"


class JobKind(StrEnum):
    BACKFILL = "backfill"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class ReplicationJob(JsonRecord):
    """Times are in Unix seconds; 0: not yet. What is counted is told in `ReplicationJobView`."""

    PREFIX: ClassVar[str] = "rj:"

    id: str
    kind: JobKind
    bucket: str
    bucket_uid: str
    sites: tuple[str, ...]
    requested_at: float
    dry_run: bool = False
    status: JobStatus = JobStatus.WAITING
    ended_at: float = 0.0
    problem: str = ""
    compared: int = 0
    missing: int = 0
    missing_bytes: int = 0
    pending: int = 0
    different: int = 0
    extra: int = 0
    present: int = 0
    older: int = 0
    queued: int = 0

    def begun(self) -> ReplicationJob:
        return replace(self, status=JobStatus.RUNNING)

    def failed(self, problem: str, *, now: float) -> ReplicationJob:
        return replace(self, status=JobStatus.FAILED, problem=problem, ended_at=now)


class MissingVersionView(BaseModel):
    """A version that is to be at a site, and is not there."""

    site: str
    key: str
    version_id: str
    size: int
    lack: str = Field(
        description="Why: no record, pending, failed, no copy though the record says so, or that of another version."
    )


class DifferentVersionView(BaseModel):
    """A version whose copy at a site is not what its record says."""

    site: str
    key: str
    version_id: str
    copy_id: str = Field(description="The id of the copy at the site.")
    difference: str = Field(description="In what: marker, size, etag, or order among the versions of the key.")


class ExtraVersionView(BaseModel):
    """A version that lies at a site and is nothing's copy."""

    site: str
    site_bucket: str
    key: str
    copy_id: str
    copy_size: int


class ReplicationJobView(BaseModel):
    """A backfill or a verification, and what it found. Versions are counted once for each site."""

    id: str
    kind: JobKind
    bucket: str
    sites: list[str]
    status: JobStatus
    dry_run: bool
    requested_at: datetime
    ended_at: datetime | None
    problem: str = Field(description="Why it failed.")
    compared: int = Field(description="Versions that the rules send to the sites.")
    missing: int = Field(description="Those that are not there.")
    missing_bytes: int = Field(description="Their size. Backfills alone tell it.")
    pending: int = Field(description="Those of the missing ones that are on their way. Verifications alone tell it.")
    different: int = Field(description="Copies that are not what their records say. Verifications alone look.")
    extra: int = Field(description="Versions at the sites that are nothing's copy. Verifications alone look.")
    present: int = Field(description="Versions that are there, or on their way. Backfills alone tell it.")
    older: int = Field(
        description="Versions that are older than their rules, which are not for existing objects: they were left "
        "alone. Backfills alone tell it."
    )
    queued: int = Field(description="Versions that the backfill has put into the queue.")
    first_missing: list[MissingVersionView] = []
    first_different: list[DifferentVersionView] = []
    first_extra: list[ExtraVersionView] = []


_FINDINGS: dict[str, type[BaseModel]] = {
    "missing": MissingVersionView,
    "different": DifferentVersionView,
    "extra": ExtraVersionView,
}


def jobs_in(tables: Tables, data: Path) -> JobList[ReplicationJob]:
    """`data` is the data directory."""
    return JobList(tables, ReplicationJob, "backfill or verification", data / FOLDER)


class ReplicationJobs:
    """`data` is the data directory."""

    def __init__(self, tables: Tables, data: Path) -> None:
        self._tables = tables
        self._jobs = jobs_in(tables, data)

    def submit(self, kind: JobKind, bucket: str, *, site: str = "", dry_run: bool = False) -> ReplicationJobView:
        """Asks for a job over one site or all that the bucket's rules name; one runs at a time."""
        text = self._tables.get(Bucket.PREFIX + bucket)
        if text is None:
            raise NotFound(f"there is no bucket {bucket}")
        uid = Bucket.from_json(text).uid
        rules_text = self._tables.get(REPLICATION + uid)
        named = ReplicationRules.from_json(rules_text).sites if rules_text is not None else ()
        if not named:
            raise InvalidInput(f"bucket {bucket} has no replication rule that is enabled")
        if site and site not in named:
            raise InvalidInput(f"no enabled replication rule of bucket {bucket} names the site {site!r}")
        sites = (site,) if site else named
        made = self._jobs.submit(
            lambda job_id, now: ReplicationJob(job_id, kind, bucket, uid, sites, now, dry_run=dry_run)
        )
        return _view(made)

    def show(self, job_id: str, *, entries: int = 0) -> ReplicationJobView:
        """With the first of what it found."""
        job = self._jobs.get(job_id)
        first = {
            f"first_{what}": [
                filled(view, **row) for row in self._jobs.first_found(job_id, what, list(view.model_fields), entries)
            ]
            for what, view in _FINDINGS.items()
        }
        return _view(job, **first)

    def history(self, count: int) -> list[ReplicationJobView]:
        """The newest, the oldest of them first."""
        return [_view(job) for job in self._jobs.all()[-count:]]

    def wait(self, job_id: str, watch: Callable[[JobStatus], None]) -> None:
        """Until it has ended. What a backfill has queued may be on its way then."""
        self._jobs.wait(job_id, watch)

    def following(self, job_id: str) -> PendingVersions:
        job = self._jobs.get(job_id)
        return PendingVersions(self._tables, [f"{OPEN}{site}/{job.bucket_uid}/" for site in job.sites])


class PendingVersions:
    """Whether versions that are on their way now are on their way still. Each is looked at until it is not."""

    def __init__(self, tables: Tables, prefixes: list[str]) -> None:
        self._tables = tables
        self._after = dict.fromkeys(prefixes, "")

    def are_left(self) -> bool:
        for prefix, after in list(self._after.items()):
            while page := self._tables.scan(prefix, after=after or None):
                for entry, text in page:
                    if OpenVersion.from_json(text).status is Status.PENDING:
                        self._after[prefix] = after
                        return True
                    after = entry
            del self._after[prefix]
        return False


def _view(job: ReplicationJob, **given: Any) -> ReplicationJobView:
    return filled(ReplicationJobView, job, sites=list(job.sites), ended_at=job.ended_at or None, **given)
