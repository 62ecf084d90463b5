"""What is told of one version: that it arrived at a site, failed or is gone, and that a copy is not needed any more."""

from __future__ import annotations

import time

from msgspec.structs import replace

from tidegate.core.pending_deletes import Component, DataType, PendingDelete
from tidegate.core.replication.messages import StatusUpdate, VersionGone
from tidegate.core.replication.ordering import state_at
from tidegate.core.replication.records import ReplicationRecord, Status
from tidegate.ports import StoredVersion


def completed(record: ReplicationRecord, site: str, copy: StoredVersion, *, now: float) -> StatusUpdate:
    told = _update(record, site, Status.COMPLETED, now)
    bucket = state_at(record, site).bucket
    return replace(told, replica_version_id=copy.version_id, replica_etag=copy.etag, site_bucket=bucket)


def failed(record: ReplicationRecord, site: str, reason: str, *, now: float) -> StatusUpdate:
    bucket = state_at(record, site).bucket
    return replace(_update(record, site, Status.FAILED, now), reason=reason, site_bucket=bucket)


def replica(record: ReplicationRecord, site: str, *, now: float) -> StatusUpdate:
    """It came from another site itself, and goes to none."""
    return _update(record, site, Status.REPLICA, now)


def pending(record: ReplicationRecord, site: str, *, now: float) -> StatusUpdate:
    """It arrived before, and is not what it was any more."""
    return _update(record, site, Status.PENDING, now)


def _update(record: ReplicationRecord, site: str, status: Status, now: float) -> StatusUpdate:
    return StatusUpdate(
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
        site=site,
        status=status,
        at=now,
        size=record.size,
    )


def gone_message(record: ReplicationRecord, *, ts_ns: int = 0) -> VersionGone:
    """`ts_ns` is that of its deletion; otherwise it was gone at some time after the record's."""
    return VersionGone(
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
        ts_ns=ts_ns or record.ts_ns,
    )


def release(record: ReplicationRecord, site: str, copy_id: str, reason: str) -> PendingDelete:
    """Has a copy at the site deleted, unless the record says that it is in use."""
    return PendingDelete(
        component=Component.REPLICA,
        data_type=DataType.LOCATION,
        pool=record.pool,
        bucket=record.bucket,
        bucket_uid=record.bucket_uid,
        key=record.key,
        version_id=record.version_id,
        location=site,
        data_key=record.key,
        data_bucket=state_at(record, site).bucket,
        data_version_id=copy_id,
        sent_ns=time.time_ns(),
        reason=reason,
    )
