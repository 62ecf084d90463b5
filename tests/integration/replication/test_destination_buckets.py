"""Into which buckets at sites rules may have versions replicated."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from replicated_world import ReplicatedWorld


def rule(bucket: str, *sites: str) -> dict[str, Any]:
    return {
        "ID": "all",
        "Priority": 1,
        "Status": "Enabled",
        "Filter": {},
        "DeleteMarkerReplication": {"Status": "Enabled"},
        "Destination": {"Bucket": f"arn:aws:s3:::{bucket}", "StorageClass": ",".join(sites)},
    }


def refusal(s3: Any, bucket: str, *rules: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        s3.put_bucket_replication(Bucket=bucket, ReplicationConfiguration={"Role": "", "Rules": list(rules)})
    error: dict[str, str] = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_bucket_that_is_missing_or_has_no_versioning_is_refused(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket()
    missing = refusal(replicated.s3, bucket, rule("nowhere-at-all", "one"))
    assert missing == ("InvalidRequest", "Destination bucket must exist.")
    replicated.at("two").create_bucket(Bucket="plain-copies")
    plain = refusal(replicated.s3, bucket, rule("plain-copies", "two"))
    assert plain == ("InvalidRequest", "Destination bucket must have versioning enabled.")


def test_health_tells_of_a_bucket_that_lost_its_versioning(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=["one"])
    suspended = {"Status": "Suspended"}
    replicated.at("one").put_bucket_versioning(Bucket=bucket, VersioningConfiguration=suspended)
    with replicated.service.api() as api:
        found = api.get("/api/v1/replication/health", params={"site": "one"}).raise_for_status().json()
    replicated.s3.delete_bucket_replication(Bucket=bucket)
    assert f"{bucket}: Destination bucket must have versioning enabled." in found[0]["message"]


def test_a_site_that_is_down_is_no_reason_to_refuse(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket()
    replicated.stores["two"].stop()
    try:
        rules = [rule(bucket, "one", "two")]
        replicated.s3.put_bucket_replication(Bucket=bucket, ReplicationConfiguration={"Role": "", "Rules": rules})
    finally:
        replicated.stores["two"].start()


def test_a_bucket_into_which_another_pool_replicates_is_refused(replicated: ReplicatedWorld) -> None:
    taken = replicated.bucket()
    other = replicated.service.s3(replicated.service.create_pool("others"))
    other.create_bucket(Bucket="others-bucket")
    other.put_bucket_versioning(Bucket="others-bucket", VersioningConfiguration={"Status": "Enabled"})
    code, message = refusal(other, "others-bucket", rule(taken, "one"))
    assert code == "AccessDenied" and taken in message
    with pytest.raises(ClientError):
        other.get_bucket_replication(Bucket="others-bucket")
