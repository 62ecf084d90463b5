"""A disk that fills up under load, and has space again: nobody ends, nothing acknowledged is lost, all comes back."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from full_disk import needs_small_disk
from open_places import open_place
from small_disk import SmallDiskService, Writers, linked, until

BACK_SECONDS = 30  # a promise of the service, not a measurement
# Longer than what the processes note down in the tables holds unless it is renewed; and so long that SeaweedFS, which
# looks at its disk once a minute, has taken its volumes for read-only.
FULL_SECONDS = {"all": 12, "tables": 12, "topics": 5, "pool": 70}
BUCKET = "results"

pytestmark = needs_small_disk


@pytest.fixture
def place() -> Iterator[Path]:
    with open_place() as opened:
        yield opened


@pytest.fixture(params=FULL_SECONDS)
def filled(request: pytest.FixtureRequest, place: Path) -> Iterator[tuple[SmallDiskService, Writers, float]]:
    """The service, who will write to it, and how long its disk is to stay full; what lies on the small file system is
    the parameter."""
    small, part = place / "small", request.param
    data = small / "data" if part == "all" else place / "data"
    if part in ("tables", "topics"):
        name = "tables.db" if part == "tables" else "topics"
        linked(data, name, small / name)
    # A manager's entry is to expire while the disk is full.
    service = SmallDiskService(data, {"lifecycle.engine": "listing", "pools.mutex_seconds": 5}, small=small)
    try:
        service.start()
        options = ["--directory", str(small / "pool")] if part == "pool" else []
        key = service.create_pool("physics", *options)
        service.s3(key).create_bucket(Bucket=BUCKET)
        yield service, Writers(service, key, BUCKET), FULL_SECONDS[part]
    finally:
        service.end()


def all_know(service: SmallDiskService, writers: Writers) -> bool:
    """Whether each gateway has said that it takes in no data. It looks at the disk of a pool once it was asked for a
    change there; a new connection may come to any of them."""
    with suppress(BotoCoreError, ClientError):
        writers.client().delete_object(Bucket=BUCKET, Key="never-there")
    said = re.findall(r" gateway\[(\d+)\] .* no data is taken in there", service.log())
    return set(service.parts()["tidegate.gateway.serve"]) <= set(map(int, said))


def test_a_disk_that_was_full_costs_nothing_that_was_acknowledged(filled: Any) -> None:
    service, writers, full_seconds = filled
    with writers:
        writers.progress(10, 60)
        before = service.parts()
        service.fill()
        writers.some_refused(20, 120)
        until(lambda: all_know(service, writers), 120, "each gateway finds out for itself")
        writers.some_refused(20, 120)
        stored = writers.stored()
        time.sleep(full_seconds)
        writers.some_refused(20, 120)
        assert writers.stored() - stored <= set(writers.acknowledged), "a change was made that could not be logged"
        key = next(iter(writers.acknowledged))
        assert writers.client().get_object(Bucket=BUCKET, Key=key)["ResponseMetadata"]["HTTPStatusCode"] == 200
        service.free()
        writers.progress(5, BACK_SECONDS)
    assert service.process.poll() is None
    assert service.parts() == before
    assert set(writers.refused) == {503}
    assert writers.lost() == []
    logged = writers.logged()
    assert {key: logged.get(key) for key in writers.acknowledged} == writers.acknowledged
    until(lambda: writers.stored() <= set(writers.logged()), 120, "what was made unacknowledged is in the log, too")


def test_a_process_that_dies_on_a_full_disk_is_replaced_and_counted(place: Path) -> None:
    small = place / "small"
    service = SmallDiskService(small / "data", {"lifecycle.enabled": False}, small=small, size="64m")
    try:
        service.start()
        before = service.parts()
        service.fill()
        victim = before["tidegate.gateway.serve"][0]
        os.kill(victim, signal.SIGKILL)
        until(lambda: victim not in service.parts()["tidegate.gateway.serve"], 30, "its end is noticed")
        service.free()
        until(lambda: len(service.gateway_pids() - {victim}) == 2, BACK_SECONDS, "another one takes its place")
        assert service.process is not None and service.process.poll() is None
        counted = re.compile(r'^tidegate_child_restarts_total\{component="gateway"\} [1-9]', re.M)
        until(
            lambda: bool(counted.search(httpx.get(f"{service.api_url}/metrics").text)),
            BACK_SECONDS,
            "its death is counted",
        )
    finally:
        service.end()


def test_a_pass_that_finds_no_space_for_the_log_table_fails_cleanly_and_the_next_one_succeeds(place: Path) -> None:
    small, data = place / "small", place / "data"
    linked(data, "log-table", small / "log-table")
    # Without a reserve passes do not wait for space: this one begins, and finds none.
    service = SmallDiskService(data, {"storage.reserve_mb": 0}, small=small, size="4m")
    try:
        service.start()
        key = service.create_pool("physics")
        s3 = service.s3(key)
        s3.create_bucket(Bucket=BUCKET)
        rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
        s3.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [rule]})
        before = service.parts()
        service.fill()
        for number in range(50):
            s3.put_object(Bucket=BUCKET, Key=f"{number}", Body=b"taken in all the while")
        failed = json.loads(service.run_cli("pass", "run", "--json").stdout)
        assert failed["status"] == "failed"
        assert "space" in failed["problem"].lower()
        service.free()
        done = service.cli("pass", "run")
        assert (done["status"], done["landed_events"] >= 50) == ("ok", True)
        assert service.parts() == before
    finally:
        service.end()
