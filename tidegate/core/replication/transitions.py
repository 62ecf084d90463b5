"""What a message of the status topic makes of a version's record, and how the counts change by it."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.replication.messages import StatusUpdate
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status


def updated(record: ReplicationRecord, update: StatusUpdate) -> ReplicationRecord:
    """The record as the update leaves it: the same where it says nothing of it. What is known of a copy is kept, unless
    the version goes to another bucket."""
    before = record.at(update.site)
    if record.is_replica:
        return record
    if update.status is Status.REPLICA:
        return replace(record, is_replica=True, sites=())
    if before is None or update.site_bucket not in ("", before.bucket):
        if update.status is not Status.PENDING or not update.site_bucket:
            return record
        return record.with_state(SiteState(update.site, update.site_bucket, update.status, update.at))
    copy = update.replica_version_id or before.replica_version_id
    is_new = (before.status, before.replica_version_id) != (update.status, copy)
    state = replace(
        before,
        status=update.status,
        since=update.at if is_new else before.since,
        reason=update.reason,
        replica_version_id=copy,
        replica_etag=update.replica_etag or before.replica_etag,
    )
    return record.with_state(state)


def arrivals(before: ReplicationRecord | None, after: ReplicationRecord | None) -> dict[str, int]:
    """By site, how the number of versions that are there changes: 1 where it has arrived, -1 where it is no more."""
    changes: dict[str, int] = {}
    for record, step in ((before, -1), (after, 1)):
        for state in record.sites if record is not None else ():
            if state.status is Status.COMPLETED:
                changes[state.site] = changes.get(state.site, 0) + step
    return {site: change for site, change in changes.items() if change}
