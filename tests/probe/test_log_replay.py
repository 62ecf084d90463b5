"""The metadata log tells the truth: after many clients and a killed gateway it replays to the backend's listing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
from direct_backend import direct_backend
from metadata_log import logged_events, settings_of
from mixed_operations import Fact, Mixer, Record, Tags
from replayed_events import ReplayedBucket, Version, replay
from running_service import RunningService, s3_client

from tidegate.core.events import Event

OPERATIONS = int(os.environ.get("PROBE_OPERATIONS", "1000"))
CLIENTS = 16
BUCKETS = {"replay-plain": "", "replay-versioned": "Enabled", "replay-suspended": "Suspended"}
KEYS = [f"key-{number}" for number in range(20)] + ["colon:key", "deep/er/key", "sp ace+plus%", "grüße-🌊", "new\nline"]


@dataclass(frozen=True)
class Listed:
    """A version as a listing shows it."""

    version_id: str
    etag: str
    size: int
    is_marker: bool
    tags: Tags


@pytest.mark.timeout(300 + OPERATIONS // 5)
def test_log_replays_to_the_backends_listing_after_a_gateway_was_killed(
    make_service: Callable[..., RunningService],
) -> None:
    service = make_service(gateway__processes=2)
    key = service.create_pool("replayed")
    client = service.s3(key)
    for bucket, versioning in BUCKETS.items():
        _make_bucket(client, bucket, versioning)
    record = Record()
    _mix(service, lambda: service.s3(key, retries=1, max_pool_connections=1), record)

    events = logged_events(settings_of(service), service.data)
    missing = _facts_without_event(record.facts, events)
    assert not missing, f"{len(missing)} of {len(record.facts)} acknowledged changes: {missing[:5]}"

    states = replay(events)
    direct = s3_client(*direct_backend(service, key.pool))
    for bucket in BUCKETS:
        _compare_versions(direct, states[bucket], record, events)
        _compare_uploads(direct, states[bucket], record)


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


def _compare_versions(client: Any, state: ReplayedBucket, record: Record, events: list[Event]) -> None:
    listed = _listed_versions(client, state.name)
    for key in listed.keys() | state.versions.keys():
        expected = _comparable([_as_listed(version) for version in state.versions.get(key, [])])
        found = listed.get(key, [])
        surplus = record.broken[(state.name, key)]
        if found != expected and surplus:
            found = _without_unacknowledged(found, expected, surplus)
            left = {tags for bucket, of, tags in record.broken_tags if (bucket, of) == (state.name, key)}
            found = [_with_tags_of(known, one, left) for one, known in zip(found, expected, strict=False)]
        assert found == expected, (
            f"{state.name}, {key!r}: listed {found}, replayed {expected}, {surplus} tries broken, "
            f"history {_history(events, state.name, key)}"
        )


def _history(events: list[Event], bucket: str, key: str) -> list[str]:
    ours = sorted((e for e in events if (e.bucket, e.key) == (bucket, key)), key=lambda event: event.ts_ns)
    return [f"{e.ts_ns} {e.operation} {e.version_id} {e.etag} {dict(e.tags)} by {e.source}" for e in ours]


def _without_unacknowledged(found: list[Listed], expected: list[Listed], surplus: int) -> list[Listed]:
    """Tries whose answer was lost may have left versions of their own, at most one per try."""
    known = {version.version_id for version in expected}
    strange = [version for version in found if version.version_id not in known]
    assert len(strange) <= surplus
    return [version for version in found if version.version_id in known]


def _with_tags_of(known: Listed, one: Listed, left: set[Tags]) -> Listed:
    """Tags of an unanswered try may lie on the version that was current at that time."""
    return replace(one, tags=known.tags) if one.tags in left else one


def _listed_versions(client: Any, bucket: str) -> dict[str, list[Listed]]:
    found: dict[str, list[tuple[Any, Listed]]] = {}
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for entry in page.get("Versions", []):
            found.setdefault(entry["Key"], []).append((entry, _looked_at(client, bucket, entry)))
        for entry in page.get("DeleteMarkers", []):
            found.setdefault(entry["Key"], []).append((entry, Listed(entry["VersionId"], "", 0, True, ())))
    ordered = {key: sorted(entries, key=lambda entry: not entry[0]["IsLatest"]) for key, entries in found.items()}
    return {key: _comparable([one for _, one in entries]) for key, entries in ordered.items()}


def _looked_at(client: Any, bucket: str, entry: Any) -> Listed:
    """SeaweedFS lists another ETag for the null version of an object in several chunks than it gives to everybody
    who asks for the object, so the object is asked for."""
    one = {"Bucket": bucket, "Key": entry["Key"], "VersionId": entry["VersionId"]}
    tags = client.get_object_tagging(**one)["TagSet"]
    etag = client.head_object(**one)["ETag"].strip('"')
    pairs = tuple(sorted((tag["Key"], tag["Value"]) for tag in tags))
    return Listed(entry["VersionId"], etag, entry["Size"], False, pairs)


def _comparable(newest_first: list[Listed]) -> list[Listed]:
    """The latest is the first; the others go by their ids, as the times of a listing are too coarse to order them."""
    return newest_first[:1] + sorted(newest_first[1:], key=lambda version: version.version_id)


def _as_listed(version: Version) -> Listed:
    if version.is_marker:
        return Listed(version.version_id, "", 0, True, ())
    return Listed(version.version_id, version.etag, version.size, False, tuple(sorted(version.tags)))


def _compare_uploads(client: Any, state: ReplayedBucket, record: Record) -> None:
    listed = {
        upload["UploadId"]: upload["Key"]
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=state.name)
        for upload in page.get("Uploads", [])
    }
    expected = {upload: key for upload, key in state.uploads.items() if upload not in record.doubtful_uploads}
    unknown = {upload: key for upload, key in listed.items() if upload not in state.uploads}
    for key, count in Counter(unknown.values()).items():
        assert count <= record.broken[(state.name, key)], f"{state.name}: upload of {key!r} without an event"
    assert {upload: key for upload, key in listed.items() if upload in expected} == expected
