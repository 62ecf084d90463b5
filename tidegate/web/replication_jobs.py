"""The part of the HTTP API about backfills and verifications."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from tidegate.replication.jobs import JobKind, ReplicationJobs, ReplicationJobView
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.service import OfRequest

router = APIRouter(
    prefix="/api/v1/replication/jobs", dependencies=[Depends(require_token)], responses=ERRORS, tags=["replication"]
)


class NewReplicationJob(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: JobKind
    bucket: str = Field(max_length=255)
    site: str = Field("", max_length=255, description="Empty: all sites that the bucket's rules name.")
    dry_run: bool = Field(False, description="Of a backfill: only tell what is missing; nothing is queued.")


def jobs_of(service: OfRequest) -> ReplicationJobs:
    return ReplicationJobs(service.tables, service.directory.path)


_Jobs = Annotated[ReplicationJobs, Depends(jobs_of)]


@router.post("", summary="Compare a bucket with its sites, or queue what is missing there", status_code=202)
def submit_job(jobs: _Jobs, new: NewReplicationJob) -> ReplicationJobView:
    return jobs.submit(new.kind, new.bucket, site=new.site, dry_run=new.dry_run)


@router.get("", summary="The newest of these jobs, the oldest of them first")
def list_jobs(jobs: _Jobs, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> list[ReplicationJobView]:
    return jobs.history(limit)


@router.get("/{job_id}", summary="One of these jobs, with the first of what it found")
def show_job(jobs: _Jobs, job_id: str, entries: Annotated[int, Query(ge=0, le=1000)] = 0) -> ReplicationJobView:
    return jobs.show(job_id, entries=entries)
