"""Versions that have failed at a site, written straight into the tables: what the status processor and the consumer of
failures leave there."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.records import Bucket, BucketPolicy
from tidegate.core.replication.failed_keys import FailedKey
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.ports import Tables

WRITTEN = 1_700_000_000.25
FAILED_AT = 1_700_000_100.0


def make_bucket(tables: Tables, name: str, uid: str, pool: str = "pool") -> None:
    bucket = Bucket(name=name, pool=pool, uid=uid, policy=BucketPolicy.NONE, created_at=1.0)
    tables.put(Bucket.PREFIX + name, bucket.to_json())


def record_of(failed: FailedKey, *sites: SiteState, uid: str = "uid", size: int = 7) -> ReplicationRecord:
    """Where no sites are given, it has failed at the one of the key."""
    given = sites or (SiteState(failed.site, "replicas", Status.FAILED, FAILED_AT, reason="connection refused"),)
    return ReplicationRecord(
        pool="pool",
        bucket=failed.bucket,
        bucket_uid=uid,
        key=failed.key,
        version_id=failed.version_id,
        ts_ns=int(WRITTEN * 1e9),
        last_modified=WRITTEN,
        size=size,
        is_marker=True,  # so that nobody looks for it in a store
        sites=given,
    )


def store(tables: Tables, record: ReplicationRecord) -> None:
    tables.change({record.entry: record.to_json(), **record.open_entries()})


def fail(tables: Tables, failed: FailedKey, *, uid: str = "uid") -> ReplicationRecord:
    """A failure as it stands in the tables when all have done their part."""
    record = record_of(failed, uid=uid)
    store(tables, record)
    tables.put(failed.entry, "")
    return record


def with_status(record: ReplicationRecord, site: str, status: Status, since: float) -> ReplicationRecord:
    state = record.at(site)
    assert state is not None
    return record.with_state(replace(state, status=status, since=since))
