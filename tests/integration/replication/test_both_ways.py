"""Two buckets that replicate to each other: what came from one does not go back."""

from __future__ import annotations

from typing import Any

from move_ledger import wait_until
from replicated_world import ReplicatedWorld

from tidegate.core.replication.records import Status


def _versions(client: Any, bucket: str) -> int:
    shown = client.list_object_versions(Bucket=bucket)
    return len(shown.get("Versions", [])) + len(shown.get("DeleteMarkers", []))


def test_versions_and_markers_go_to_the_other_side_and_not_back(replicated: ReplicatedWorld) -> None:
    world, s3 = replicated, replicated.s3
    key = world.service.create_key("replicated")
    secret = world.directory / "own.secret"
    secret.write_text(key.secret_key)
    secret.chmod(0o600)
    world.service.cli(
        "location", "create", "own", "--endpoint", world.service.s3_url, "--bucket", "here-for-own", "--prefix", "own/",
        "--access-key", key.access_key, "--secret-key-file", str(secret),
    )  # fmt: skip
    pairs = {"east-side": "west-side", "west-side": "east-side"}
    for name in pairs:
        s3.create_bucket(Bucket=name)
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for name, other in pairs.items():
        rule = {
            "ID": "all", "Priority": 1, "Status": "Enabled", "Filter": {},
            "DeleteMarkerReplication": {"Status": "Enabled"},
            "Destination": {"Bucket": f"arn:aws:s3:::{other}", "StorageClass": "own"},
        }  # fmt: skip
        s3.put_bucket_replication(Bucket=name, ReplicationConfiguration={"Role": "r", "Rules": [rule]})
    for name in pairs:
        world.put(name, f"from-{name}", b"data")
        world.delete(name, f"from-{name}")

    def statuses(name: str, key: str) -> list[Status]:
        return [record.status for record in world.records(name, key)]

    for name, other in pairs.items():
        for side, status in ((name, Status.COMPLETED), (other, Status.REPLICA)):
            wait_until(
                lambda side=side, status=status, name=name: statuses(side, f"from-{name}") == [status] * 2,
                lambda side=side, name=name: f"{side}: {statuses(side, f'from-{name}')}",
            )
    assert [_versions(s3, name) for name in pairs] == [4, 4]
