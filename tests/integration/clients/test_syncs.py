"""Syncs of 50 trees by aws, rclone and s5cmd: the first makes both sides equal, the second does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from metadata_log import MetadataLog
from syncs import Forest, SyncClient, check_down, check_up, listed
from ways import Way


def _aws(name: str, *options: str) -> SyncClient:
    return SyncClient(
        name,
        "aws",
        options=lambda way: ("--endpoint-url", way.url),
        # Small pages, so that their ends fall between any two names.
        command=("s3", "sync", "--no-progress", "--page-size", "17", *options),
        deletes="--delete" in options,
        # A second attempt would hide what went wrong in the first.
        environment=lambda way: {"AWS_MAX_ATTEMPTS": "1"},
    )


def _rclone(name: str, *options: str) -> SyncClient:
    return SyncClient(
        name,
        "rclone",
        options=lambda way: ("--config", "/dev/null", "--retries", "1"),
        command=("sync", "--combined", "-", *options),
        deletes=True,
        environment=lambda way: {
            "RCLONE_CONFIG_STORE_TYPE": "s3",
            "RCLONE_CONFIG_STORE_PROVIDER": "Other",
            "RCLONE_CONFIG_STORE_ENDPOINT": way.url,
            "RCLONE_CONFIG_STORE_ENV_AUTH": "true",
            "RCLONE_CONFIG_STORE_LIST_CHUNK": "17",
        },
        remote="store:{}",
        actions=lambda output: [line for line in output.splitlines() if not line.startswith("= ")],
    )


_S5CMD = SyncClient(
    "s5cmd-delete",
    "s5cmd",
    options=lambda way: ("--endpoint-url", way.url),
    command=("sync", "--delete"),
    deletes=True,
    local="{}/",
    remote="s3://{}/",
    remote_source="s3://{}/*",
)

CLIENTS = [
    _aws("aws-delete", "--delete"),
    _aws("aws"),
    _rclone("rclone"),
    _rclone("rclone-fast-list", "--fast-list"),
    _S5CMD,
]
_EACH_CLIENT = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@_EACH_CLIENT
def test_a_sync_up_makes_both_sides_equal_and_the_next_one_does_nothing(
    client: SyncClient, gateway: Way, log: MetadataLog, forest: Forest, tmp_path: Path
) -> None:
    check_up(client, gateway, log, forest, tmp_path)


@_EACH_CLIENT
def test_a_sync_down_makes_both_sides_equal_and_the_next_one_does_nothing(
    client: SyncClient, gateway: Way, log: MetadataLog, forest: Forest, tmp_path: Path
) -> None:
    check_down(client, gateway, log, forest, tmp_path)


@pytest.mark.parametrize("page_size", [1000, 17, 1])
def test_the_trees_are_listed_once_each_in_the_order_of_their_bytes(
    gateway: Way, forest: Forest, page_size: int
) -> None:
    page = {"PageSize": page_size}
    # One tree is enough where each key is a request.
    prefix = "tree-49/" if page_size == 1 else ""
    keys = [entry.key for entry in listed(gateway.s3(), forest.bucket, Prefix=prefix, PaginationConfig=page)]
    assert keys == sorted((key for key in forest.files if key.startswith(prefix)), key=str.encode)


def test_each_tree_is_listed_by_its_folders_in_the_order_of_their_bytes(gateway: Way, forest: Forest) -> None:
    s3 = gateway.s3()
    pages = s3.get_paginator("list_objects_v2")
    for prefix in sorted({key.partition("/")[0] + "/" for key in forest.files}):
        below = [key.removeprefix(prefix) for key in forest.files if key.startswith(prefix)]
        wanted = sorted({prefix + name.partition("/")[0] + "/" * ("/" in name) for name in below}, key=str.encode)
        found: list[str] = []
        for page in pages.paginate(
            Bucket=forest.bucket, Prefix=prefix, Delimiter="/", PaginationConfig={"PageSize": 3}
        ):
            names = [entry["Key"] for entry in page.get("Contents", [])]
            names += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
            found += sorted(names, key=str.encode)
        assert found == wanted
