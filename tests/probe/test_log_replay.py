"""The metadata log tells the truth: after many clients and a killed gateway it replays to the backend's listing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from mixed_operations import Fact, Mixer, Record
from replayed import all_events, compare, wait_until_healed
from running_service import RunningService

from tidegate.core.events import Event

OPERATIONS = int(os.environ.get("PROBE_OPERATIONS", "1000"))
CLIENTS = 16
# For as long a busy store may still be at what the killed gateway had asked of it.
HEALING_SECONDS = 10
BUCKETS = {"replay-plain": "", "replay-versioned": "Enabled", "replay-suspended": "Suspended"}
KEYS = [f"key-{number}" for number in range(20)] + ["colon:key", "deep/er/key", "sp ace+plus%", "grüße-🌊", "new\nline"]


@pytest.mark.timeout(300 + OPERATIONS // 5)
def test_log_replays_to_the_backends_listing_after_a_gateway_was_killed(
    make_service: Callable[..., RunningService],
) -> None:
    service = make_service(gateway__processes=2, gateway__healing_seconds=HEALING_SECONDS)
    key = service.create_pool("replayed")
    client = service.s3(key)
    for bucket, versioning in BUCKETS.items():
        _make_bucket(client, bucket, versioning)
    record = Record()
    _mix(service, lambda: service.s3(key, retries=1, max_pool_connections=1), record)

    missing = _facts_without_event(record.facts, all_events(service))
    assert not missing, f"{len(missing)} of {len(record.facts)} acknowledged changes: {missing[:5]}"

    wait_until_healed(service)
    compare(service, key, list(BUCKETS))


def _make_bucket(client: Any, bucket: str, versioning: str) -> None:
    """The suspended bucket has known versioning: some of its keys have versions from that time."""
    client.create_bucket(Bucket=bucket)
    if versioning:
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        for key in KEYS[::3]:
            client.put_object(Bucket=bucket, Key=key, Body=f"early {key}".encode())
    if versioning == "Suspended":
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})


def _mix(service: RunningService, client: Callable[[], Any], record: Record) -> None:
    """All clients at once; when half of the operations are done, one gateway dies without a word."""
    clients = [client() for _ in range(CLIENTS)]
    mixers = [Mixer(one, list(BUCKETS), KEYS, record, seed) for seed, one in enumerate(clients)]
    victim = min(service.gateway_pids())
    over = threading.Event()

    def kill_at_half_time() -> None:
        while record.done < OPERATIONS // 2 and not over.is_set():
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)

    with ThreadPoolExecutor(CLIENTS + 1) as threads:
        killer = threads.submit(kill_at_half_time)
        try:
            for running in [threads.submit(mixer.run, OPERATIONS // CLIENTS) for mixer in mixers]:
                running.result()
        finally:
            over.set()
        killer.result()
    assert victim not in service.processes()


def _facts_without_event(facts: list[Fact], events: list[Event]) -> list[Fact]:
    """Each event can prove one fact. An ETag or tags that the client does not know (a copy's tags) prove nothing."""
    logged = Counter(_proof(event.operation.value, event) for event in events)
    missing = []
    for fact in facts:
        proof = _proof(fact.operation, fact)
        if logged[proof] > 0:
            logged[proof] -= 1
        else:
            missing.append(fact)
    return missing


def _proof(operation: str, change: Fact | Event) -> tuple[object, ...]:
    version = "" if change.version_id == "null" else change.version_id
    tags = tuple(sorted(change.tags)) if operation == "tagging" else ()
    # A tagging request names no version, the event may.
    version = "" if operation == "tagging" else version
    return (operation, change.bucket, change.key, version, change.etag, change.upload_id, tags)
