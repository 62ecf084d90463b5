"""Changes that nobody saw through: the log is told what became of them, and nothing that did not happen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from busy import BUCKETS, busy_clients, busy_place, done_after
from held_log import refusing_log
from places import Place
from raw_http import until
from replayed import all_events, compare, gateway_pids, left_open, wait_until_healed
from running_service import RunningService

from tidegate.core.events import EventKind


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, _clean_environment: None) -> Iterator[Place]:
    settings = {"gateway.processes": 2, "gateway.healing_seconds": 10}
    service = RunningService(tmp_path_factory.mktemp("healing") / "data", settings)
    try:
        yield busy_place(service.start())
    finally:
        service.end()


def test_after_killed_gateways_the_log_replays_to_the_listing_unanswered_requests_included(place: Place) -> None:
    with busy_clients(place, seed=100) as record:
        for _ in range(3):
            victim = max(gateway_pids(place.service))
            os.kill(victim, signal.SIGKILL)
            until(lambda gone=victim: len(gateway_pids(place.service) - {gone}) == 2)
            done_after(record, 20)
    assert record.broken, "no request was under way when the gateways were killed"
    wait_until_healed(place.service)
    compare(place.service, place.key, BUCKETS)


def test_after_a_killed_backend_the_log_replays_to_the_listing(place: Place) -> None:
    with busy_clients(place, seed=200) as record:
        directory = place.service.data / "pools" / place.key.pool
        (backend,) = [pid for pid in place.service.processes() if Path(f"/proc/{pid}/cwd").resolve() == directory]
        os.kill(backend, signal.SIGKILL)
        done_after(record, 60)
    assert record.broken, "no request was under way when the backend was killed"
    wait_until_healed(place.service)
    compare(place.service, place.key, BUCKETS)


def test_what_the_log_did_not_take_is_told_to_it_later(place: Place) -> None:
    """Nobody repeats these requests: only the healer can tell what they did."""
    s3, bucket = place.service.s3(place.key, retries=1), BUCKETS[1]
    for key in ("unlogged/gone", "unlogged/source"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    requests: list[Callable[[], Any]] = [
        lambda: s3.put_object(Bucket=bucket, Key="unlogged/put", Body=b"y", Tagging="a=b"),
        lambda: s3.delete_object(Bucket=bucket, Key="unlogged/gone"),
        lambda: s3.create_multipart_upload(Bucket=bucket, Key="unlogged/upload"),
        lambda: s3.copy_object(Bucket=BUCKETS[0], Key="unlogged/copy", CopySource=f"{bucket}/unlogged/source"),
    ]
    with ThreadPoolExecutor(len(requests)) as threads, refusing_log(place.service) as refuse:
        # All at once: when the log has refused the first, no other is let through.
        asked = [threads.submit(request) for request in requests]
        until(lambda: len(left_open(place.service)) == len(requests))
        refuse()
        for one in asked:
            with pytest.raises(ClientError, match="ServiceUnavailable"):
                one.result()
        assert len(left_open(place.service)) == len(requests)
        until(lambda: "left open cannot be looked into yet" in place.service.log())
    wait_until_healed(place.service)
    compare(place.service, place.key, BUCKETS)
    healed = {(event.operation, event.key) for event in all_events(place.service) if event.source.endswith("/healer")}
    assert {
        (EventKind.PUT, "unlogged/put"),
        (EventKind.DELETE_MARKER, "unlogged/gone"),
        (EventKind.UPLOAD_STARTED, "unlogged/upload"),
        (EventKind.PUT, "unlogged/copy"),
    } <= healed
