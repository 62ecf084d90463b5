"""What the gateway notes down of buckets, so that lifecycle need not wake a pool to ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from running_service import PoolKey, RunningService

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.records import Bucket, BucketState


@pytest.fixture
def state(service: RunningService) -> Iterator[Callable[[str], BucketState]]:
    tables = SqliteTables(service.data / "tables.db")

    def look(bucket: str) -> BucketState:
        uid = Bucket.from_json(str(tables.get(Bucket.PREFIX + bucket))).uid
        return BucketState.from_json(str(tables.get(BucketState.PREFIX + uid)))

    yield look
    tables.close()


def test_versioning_is_noted_down_whenever_it_changes(
    service: RunningService, pool: PoolKey, fresh_name: Callable[[str], str], state: Callable[[str], BucketState]
) -> None:
    s3, bucket = service.s3(pool), fresh_name("states")
    s3.create_bucket(Bucket=bucket)
    assert state(bucket) == BucketState("Off", 0)
    for status in ("Enabled", "Suspended", "Enabled"):
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
        assert state(bucket) == BucketState(status, 0)


def test_a_bucket_with_locks_has_versioning_from_the_beginning(
    service: RunningService, pool: PoolKey, fresh_name: Callable[[str], str], state: Callable[[str], BucketState]
) -> None:
    s3, bucket = service.s3(pool), fresh_name("states")
    s3.create_bucket(Bucket=fresh_name("first"))  # the pool runs
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    assert state(bucket) == BucketState("Enabled", 0)


def test_of_a_bucket_that_the_store_had_with_contents_the_log_does_not_know_everything(
    service: RunningService, pool: PoolKey, fresh_name: Callable[[str], str], state: Callable[[str], BucketState]
) -> None:
    s3, bucket = service.s3(pool), fresh_name("states")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="old", Body=b"x")
    service.cli("bucket", "delete", bucket, "--yes")
    s3.create_bucket(Bucket=bucket)
    assert state(bucket).complete_since_ns > 0
