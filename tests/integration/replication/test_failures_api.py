"""The list of failures at a running service: thousands of them, odd keys, and retries of what is in a real store."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failed_versions import fail, make_bucket, record_of, store
from running_service import PoolKey, RunningService

from tidegate.assembly import open_tables
from tidegate.core.records import Bucket
from tidegate.core.replication.failed_keys import FailedKey
from tidegate.ports import Tables
from tidegate.settings import restore

FAILURES = 20_000
PAGE_BYTES = 64 * 1024 * 1024
SITE = "nowhere"  # no location of this name is there, so that nobody replicates what is retried
ODD_KEYS = [
    "a:b",
    ":",
    "x:v1:nowhere",
    "dir//é/",
    "line\nbreak\r\n",
    "🌊" * 256,
    "k" * 1024,
    " ",
    "%3A%2F",
    "+",
    "&=",
    "\t",
]


@pytest.fixture
def tables(service: RunningService) -> Iterator[Tables]:
    settings = restore((service.data / "run" / "settings.json").read_text())
    with closing(open_tables(settings, service.data)) as opened:
        yield opened


@pytest.fixture
def bucket(tables: Tables, fresh_name: Callable[[str], str]) -> str:
    """One of which only the tables know."""
    name = fresh_name("failing")
    make_bucket(tables, name, f"uid-of-{name}")
    return name


def pages(service: RunningService, **query: str) -> Iterator[list[dict[str, Any]]]:
    with service.api() as api:
        marker = {}
        while True:
            page = api.get("/_/crr/failed", params={**query, **marker}).raise_for_status().json()
            yield page["Versions"]
            if not page["IsTruncated"]:
                return
            marker = {"marker": page["NextMarker"]}


def write_failures(tables: Tables, bucket: str, keys: list[str]) -> None:
    entries: dict[str, str | None] = {}
    for key in keys:
        failed = FailedKey(bucket, key, "v1", SITE)
        record = record_of(failed, uid=f"uid-of-{bucket}")
        entries |= {record.entry: record.to_json(), failed.entry: "", **record.open_entries()}
    tables.change(entries)


def most_memory(pid: int) -> int:
    """The most that a process ever had of the machine's memory, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_twenty_thousand_failures_are_told_once_each_while_others_come_and_go(
    service: RunningService, tables: Tables, bucket: str
) -> None:
    keys = [f"{number:05}" + "é" * 50 for number in range(FAILURES)]
    write_failures(tables, bucket, keys)
    (api,) = service.pids_of("tidegate.web.serve")
    next(pages(service, bucket=bucket))  # what one page takes, it takes once
    before = most_memory(api)
    done = threading.Event()

    def come_and_go() -> None:
        for number in itertools.cycle(range(0, FAILURES, 37)):
            if done.is_set():
                return
            passing = FailedKey(bucket, f"{number:05}-passing", "v1", SITE)
            fail(tables, passing, uid=f"uid-of-{bucket}")
            tables.delete(passing.entry)

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        listed = []
        for page in pages(service, bucket=bucket):
            assert len(page) <= 1000
            listed += [version["Key"] for version in page]
    finally:
        done.set()
        other.join()
    assert [key for key in listed if not key.endswith("-passing")] == keys
    assert len(set(listed)) == len(listed)
    assert most_memory(api) - before < PAGE_BYTES


def test_failures_that_are_retried_meanwhile_do_not_change_where_the_others_are(
    service: RunningService, tables: Tables, bucket: str
) -> None:
    keys = [f"{number:04}" for number in range(3000)]
    write_failures(tables, bucket, keys)
    listed: list[str] = []
    with service.api() as api:
        for page in pages(service, bucket=bucket):
            listed += [version["Key"] for version in page]
            api.post("/_/crr/failed", json=page).raise_for_status()
    assert listed == keys
    assert list(pages(service, bucket=bucket)) == [[]]


@pytest.mark.parametrize("key", ODD_KEYS, ids=ascii)
def test_a_failure_is_found_and_retried_whatever_its_key_holds(
    service: RunningService, tables: Tables, bucket: str, key: str
) -> None:
    failed = FailedKey(bucket, key, "v1", SITE)
    fail(tables, failed, uid=f"uid-of-{bucket}")
    expected = {"Bucket": bucket, "Key": key, "VersionId": "v1", "StorageClass": SITE, "Size": 7,
                "LastModified": "2023-11-14T22:13:20.250Z"}  # fmt: skip
    with service.api() as api:
        query = {"bucket": bucket, "key": key, "version-id": "v1"}
        listed = api.get("/_/crr/failed", params=query).raise_for_status().json()
        assert listed == {"IsTruncated": False, "Versions": [expected]}
        names = ("Bucket", "Key", "VersionId", "StorageClass")
        body = [{name: expected[name] for name in names}]
        retried = api.post("/_/crr/failed", json=body).raise_for_status().json()
        assert retried == [{**expected, "ReplicationStatus": "PENDING"}]
        assert api.post("/_/crr/failed", json=body).raise_for_status().json() == []
        listed = api.get("/_/crr/failed", params=query).raise_for_status().json()
        assert listed == {"IsTruncated": False, "Versions": []}


def test_a_version_is_retried_as_long_as_the_store_of_its_bucket_has_it(
    service: RunningService, tables: Tables, pool: PoolKey, fresh_name: Callable[[str], str]
) -> None:
    s3, bucket = service.s3(pool), fresh_name("stored")
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    kept, gone = (s3.put_object(Bucket=bucket, Key=key, Body=b"1234567")["VersionId"] for key in ("kept", "gone"))
    text = tables.get(Bucket.PREFIX + bucket)
    assert text is not None
    uid = Bucket.from_json(text).uid
    s3.delete_object(Bucket=bucket, Key="gone", VersionId=gone)
    for key, version_id in (("kept", kept), ("gone", gone)):
        failed = FailedKey(bucket, key, version_id, SITE)
        record = replace(record_of(failed, uid=uid), pool=pool.pool, is_marker=False)
        store(tables, record)
        tables.put(failed.entry, "")
    with service.api() as api:
        listed = api.get("/_/crr/failed", params={"bucket": bucket}).raise_for_status().json()["Versions"]
        retried = api.post("/_/crr/failed", json=listed).raise_for_status().json()
        assert [version["Key"] for version in retried] == ["kept"]


def test_two_operators_who_press_at_once_get_each_version_between_them(
    service: RunningService, tables: Tables, bucket: str
) -> None:
    keys = [f"{number:03}" for number in range(300)]
    write_failures(tables, bucket, keys)
    body = next(pages(service, bucket=bucket))
    answers: list[list[dict[str, Any]]] = []
    together = threading.Barrier(2)

    def press() -> None:
        with service.api() as api:
            together.wait()
            answers.append(api.post("/_/crr/failed", json=body).raise_for_status().json())

    operators = [threading.Thread(target=press) for _ in range(2)]
    for operator in operators:
        operator.start()
    for operator in operators:
        operator.join()
    assert sorted(version["Key"] for answer in answers for version in answer) == keys
    assert list(pages(service, bucket=bucket)) == [[]]


def test_the_command_retries_all_that_match(service: RunningService, tables: Tables, bucket: str) -> None:
    write_failures(tables, bucket, [f"{number:04}" for number in range(1500)])
    assert service.cli("replication", "failed", "retry", "--bucket", bucket) == {"retried": 1500}
    assert service.cli("replication", "failed", "list", "--bucket", bucket) == []
