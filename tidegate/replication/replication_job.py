"""How a backfill or a verification of a bucket is carried out."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import asdict, replace

from tidegate.assembly import open_location
from tidegate.core.errors import Conflict, NotFound, Unavailable
from tidegate.core.records import Bucket
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.jobs.job_list import JobStatus
from tidegate.jobs.job_work import JobContext, JobWork
from tidegate.movement.locations import Locations
from tidegate.pipeline.audit.location_source import AuditedLocation
from tidegate.pipeline.replication.backfilling import Home, backfill
from tidegate.pipeline.replication.job import ComparedBucket
from tidegate.pipeline.replication.verification import verify
from tidegate.pipeline.walk.listing_source import WalkedBucket
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.replication.jobs import JobKind, ReplicationJob, jobs_in
from tidegate.replication.retries import longest_pending_seconds

logger = logging.getLogger(__name__)


def _carried_out(context: JobContext, job: ReplicationJob) -> ReplicationJob:
    bucket = _bucket(context, job)
    what = _compared_bucket(context, job, bucket)
    if job.kind is JobKind.VERIFY:
        found = asdict(verify(context.warm.get(), what, context.folder))
    else:
        home = Home(bucket.pool, bucket.name, bucket.uid)
        overdue = time.time() - longest_pending_seconds(context.settings)
        session, folder = context.warm.get(), context.folder
        found = asdict(backfill(session, what, home, folder, dry_run=job.dry_run, overdue_before=overdue))
    return replace(job, status=JobStatus.DONE, ended_at=time.time(), **found)


def _bucket(context: JobContext, job: ReplicationJob) -> Bucket:
    text = context.tables.get(Bucket.PREFIX + job.bucket)
    bucket = Bucket.from_json(text) if text is not None else None
    if bucket is None or bucket.uid != job.bucket_uid:
        raise NotFound(f"bucket {job.bucket} is no more")
    return bucket


def _compared_bucket(context: JobContext, job: ReplicationJob, bucket: Bucket) -> ComparedBucket:
    """The bucket is read through the gateway, with the pool's service key."""
    text = context.tables.get(REPLICATION + bucket.uid)
    if text is None:
        raise Conflict(f"bucket {bucket.name} has no replication rules any more")
    endpoints = context.directory.endpoints()
    if endpoints is None:
        raise Unavailable("the service has stopped")
    path, settings = context.directory.path, context.settings
    vault = Vault.open(path)
    registry = Registry(context.tables, vault, path, settings)
    access_key, secret = registry.service_key(bucket.pool, now=time.time())
    owner = registry.pool(bucket.pool).owner
    with closing(Locations(context.tables, vault, settings.locations, open_location)) as locations:
        sites = {site: AuditedLocation(*locations.with_secret(site)) for site in job.sites}
    walked = WalkedBucket(bucket.uid, bucket.name, owner, endpoints.s3, access_key, secret)
    return ComparedBucket(walked, ReplicationRules.from_json(text), sites, context.place)


def _report(ended: ReplicationJob) -> None:
    logger.log(
        logging.WARNING if ended.missing or ended.different or ended.extra or ended.problem else logging.INFO,
        "%s %s of bucket %s %s: %d compared, %d missing, %d pending, %d different, %d extra, %d queued%s",
        *(ended.kind, ended.id, ended.bucket, ended.status, ended.compared),
        *(ended.missing, ended.pending, ended.different, ended.extra, ended.queued),
        f"; {ended.problem}" if ended.problem else "",
    )


COMPARISON = JobWork(jobs_in, _carried_out, _report)
