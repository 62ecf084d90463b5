"""`tidegate lifecycle`, `tidegate audit` and their routes: what they show is what happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from lifecycle_world import DAY, World
from stored_locations import store_location_of

RULES: list[dict[str, Any]] = [
    {"ID": "temporary", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 1}},
    {"ID": "tagged", "Filter": {"Tag": {"Key": "k", "Value": "v"}}, "Expiration": {"Days": 9}},
    {"ID": "moving", "Filter": {"Prefix": "tmp/"}, "Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]},
]


@pytest.fixture
def bucket(world: World, fresh_name: Callable[[str], str]) -> str:
    store_location_of(world.service, "cold", "GLACIER")
    return world.bucket(fresh_name("commands"), *RULES)


def get(world: World, path: str, **query: str) -> Any:
    with world.service.api() as api:
        return api.get(f"/api/v1/{path}", params=query).raise_for_status().json()


def test_buckets_with_rules_are_listed(world: World, bucket: str) -> None:
    def listed() -> list[dict[str, Any]]:
        return [view for view in world.service.cli("lifecycle", "buckets") if view["bucket"] == bucket]

    world.wait_until(lambda: bool(listed()), "the bucket on the list")
    (view,) = listed()
    assert (view["pool"], view["rules"]) == ("lifecycle", 3)
    assert view in get(world, "lifecycle/buckets")
    assert bucket in world.service.run_cli("lifecycle", "buckets").stdout


def test_explain_tells_what_then_happens(world: World, bucket: str) -> None:
    world.put(bucket, "tmp/a", Tagging="k=v")
    created = time.time()
    view = get(world, "lifecycle/explain", bucket=bucket, key="tmp/a")
    (item,) = view["items"]
    verdicts = {verdict["rule_id"]: verdict for verdict in item["verdicts"]}
    assert (item["place"], view["versioning"], view["last_decision"]) == ("current", "Off", None)
    assert verdicts["temporary"]["matches"] and not verdicts["temporary"]["is_due"]
    assert verdicts["tagged"]["matches"]
    assert "less than" in " ".join(verdicts["moving"]["obstacles"])
    world.wait_until(lambda: not world.keys(bucket), "expiry")
    assert time.time() - created >= DAY - 1
    (record,) = world.service.cli("audit", "--bucket", bucket, "--key", "tmp/a")
    assert (record["rule_id"], record["outcome"], record["action"]) == ("temporary", "DONE", "deleteObject")
    assert get(world, "audit", bucket=bucket, key="tmp/a") == [record]
    done, told = (datetime.fromisoformat(view["due_at"]) for view in (record, verdicts["temporary"]))
    assert abs(told - done) <= timedelta(seconds=1)  # listings tell whole seconds, the log does not
    world.put(bucket, "tmp/a")
    again = get(world, "lifecycle/explain", bucket=bucket, key="tmp/a")
    assert again["last_decision"]["outcome"] == "DONE"


def test_explain_by_command_is_what_the_api_says(world: World, bucket: str) -> None:
    """Of an object that stays while the commands run."""
    world.put(bucket, "kept", Tagging="k=v")
    view = world.service.cli("lifecycle", "explain", f"s3://{bucket}/kept")
    told = get(world, "lifecycle/explain", bucket=bucket, key="kept")
    assert view | {"at": ""} == told | {"at": ""}
    shown = world.service.run_cli("lifecycle", "explain", f"s3://{bucket}/kept").stdout
    assert "deleteObject at" in shown and "does not apply" in shown


def test_explain_tells_versions_markers_and_uploads_apart(world: World, fresh_name: Callable[[str], str]) -> None:
    name = world.bucket(
        fresh_name("commands"),
        {"NoncurrentVersionExpiration": {"NoncurrentDays": 900}},
        {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 900}},
        versioning="Enabled",
    )
    first, second = world.put(name, "k", "k")
    marker = world.s3.delete_object(Bucket=name, Key="k")["VersionId"]
    upload = world.s3.create_multipart_upload(Bucket=name, Key="k")["UploadId"]
    items = get(world, "lifecycle/explain", bucket=name, key="k")["items"]
    assert [(item["version_id"], item["upload_id"], item["place"]) for item in items] == [
        (marker, "", "covering-marker"),
        (second, "", "noncurrent"),
        (first, "", "noncurrent"),
        ("", upload, "upload"),
    ]
    only = world.service.cli("lifecycle", "explain", f"s3://{name}/k", "--version", first)
    assert [item["version_id"] for item in only["items"]] == [first]


def test_explain_says_what_is_missing_or_wrong(world: World, bucket: str) -> None:
    for address, message in (
        (f"s3://{bucket}/missing", "there is no missing in bucket"),
        ("s3://no-such-bucket/k", "there is no bucket no-such-bucket"),
        (bucket, "named as s3://BUCKET/KEY"),
        (f"s3://{bucket}/", "named as s3://BUCKET/KEY"),
    ):
        done = world.service.run_cli("lifecycle", "explain", address)
        assert done.returncode == 1 and message in done.stderr
    with world.service.api() as api:
        assert api.get("/api/v1/lifecycle/explain", params={"bucket": bucket, "key": "missing"}).status_code == 404
        assert api.get("/api/v1/lifecycle/explain", params={"bucket": bucket}).status_code == 422


def test_a_command_without_a_running_service_says_what_to_do(world: World, tmp_path: Any) -> None:
    from running_service import RunningService

    resting = RunningService(tmp_path / "data")
    assert resting.cli("audit") == []
    assert resting.cli("lifecycle", "buckets") == []
    done = resting.run_cli("lifecycle", "explain", "s3://bucket/key")
    assert done.returncode == 1 and "there is no bucket bucket" in done.stderr
