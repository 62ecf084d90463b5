"""How an audit of a location is carried out."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import asdict, replace

from tidegate import metrics
from tidegate.assembly import open_location
from tidegate.core.pending_deletes import DataType
from tidegate.jobs.job_list import JobStatus
from tidegate.jobs.job_work import JobContext, JobWork
from tidegate.movement.audits import LocationAudit, audits_in
from tidegate.movement.locations import Locations
from tidegate.pipeline.audit import orphans
from tidegate.pipeline.audit.location_source import AuditedLocation
from tidegate.pools.vault import Vault

_HOUR_NS = 3600 * 1_000_000_000

logger = logging.getLogger(__name__)


def _audited(context: JobContext, audit: LocationAudit) -> LocationAudit:
    settings, warm = context.settings, context.warm
    before_ns = time.time_ns() - int(settings.audit.orphan_grace_hours * _HOUR_NS)
    vault = Vault.open(context.directory.path)
    with closing(Locations(context.tables, vault, settings.locations, open_location)) as locations:
        audited = AuditedLocation(*locations.with_secret(audit.location))
    counts = orphans.audit(warm.get(), audited, context.place, context.folder, before_ns=before_ns)
    if not audit.dry_run and counts.orphans > counts.foreign:
        name, topic = audited.location.name, settings.deletion.topic
        sent = orphans.release(warm.get(), context.place, context.folder, name, topic)
        metrics.DELETION_SENT.labels(DataType.LOCATION.value).inc(sent)
        counts = replace(counts, sent=sent)
    return replace(audit, status=JobStatus.DONE, ended_at=time.time(), **asdict(counts))


def _report(ended: LocationAudit) -> None:
    logger.log(
        logging.WARNING if ended.missing or ended.problem else logging.INFO,
        "audit %s of location %s %s: %d orphans, %d of them sent to deletion, %d versions without their data%s",
        *(ended.id, ended.location, ended.status, ended.orphans, ended.sent, ended.missing),
        f"; {ended.problem}" if ended.problem else "",
    )


AUDIT = JobWork(audits_in, _audited, _report)
