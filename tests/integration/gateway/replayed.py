"""What the metadata log, replayed, says that a pool holds, beside what its store says: the two must be equal."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from direct_backend import direct_backend
from metadata_log import logged_events, settings_of
from raw_http import until
from replayed_events import ReplayedBucket, replay
from running_service import PoolKey, RunningService, s3_client

from tidegate.assembly import open_tables
from tidegate.core.events import Event
from tidegate.core.records import GatewayEntry
from tidegate.gateway.changes import intents

HEALING_SECONDS = 180


class Shown(NamedTuple):
    """A version, or a delete marker with neither ETag nor tags."""

    version_id: str
    etag: str = ""
    size: int = 0
    storage_class: str = ""
    tags: tuple[tuple[str, str], ...] = ()


class Contents(NamedTuple):
    """Of each key the current version and, in no order, the others; and the keys of open uploads."""

    versions: dict[str, tuple[Shown, frozenset[Shown]]]
    uploads: dict[str, str]


def all_events(service: RunningService) -> list[Event]:
    """In the order of their times."""
    return logged_events(settings_of(service), service.data)


def direct_client(service: RunningService, key: PoolKey) -> Any:
    """A client of the pool's store itself, which no gateway sees."""
    return s3_client(*direct_backend(service, key.pool))


def gateway_pids(service: RunningService) -> set[int]:
    with closing(open_tables(settings_of(service), service.data)) as tables:
        pids = {GatewayEntry.from_json(text).pid for _, text in tables.scan(GatewayEntry.PREFIX)}
    return {pid for pid in pids if Path("/proc", str(pid)).exists()}  # the entry of a killed one lives on for a while


def left_open(service: RunningService) -> list[intents.Intent]:
    """Changes of which nobody knows yet what became of them, be their gateway alive or not."""
    found: list[intents.Intent] = []
    for path in (service.data / "run" / "intents").iterdir():
        try:
            found += intents.parse(path.read_bytes()).values()
        except FileNotFoundError:
            continue  # it was seen to just now
    return found


def wait_until_healed(service: RunningService) -> None:
    def healed() -> bool:
        dead = [path for path in (service.data / "run" / "intents").iterdir() if not _is_alive(path)]
        # A change that goes from one file to another while the files are read may be seen in neither, but not twice.
        return not dead and not left_open(service) and not left_open(service)

    until(healed, HEALING_SECONDS, f"changes stay open: {left_open(service)}")


def _is_alive(path: Path) -> bool:
    return Path("/proc", path.name.partition("-")[0]).exists()


def compare(service: RunningService, key: PoolKey, buckets: list[str]) -> None:
    states = replay(all_events(service))
    direct = direct_client(service, key)
    for bucket in buckets:
        log, store = logged(states[bucket]), stored(direct, bucket)
        for name in log.versions.keys() | store.versions.keys():
            assert log.versions.get(name) == store.versions.get(name), f"{bucket}: {name!r} (the log first)"
        assert log.uploads == store.uploads, bucket


def logged(state: ReplayedBucket) -> Contents:
    versions = {
        key: [
            Shown(one.version_id)
            if one.is_marker
            else Shown(one.version_id, one.etag, one.size, one.storage_class, tuple(sorted(one.tags)))
            for one in newest_first
        ]
        for key, newest_first in state.versions.items()
    }
    return Contents({key: (found[0], frozenset(found[1:])) for key, found in versions.items()}, dict(state.uploads))


def stored(direct: Any, bucket: str) -> Contents:
    current: dict[str, Shown] = {}
    others: dict[str, set[Shown]] = {}
    for page in direct.get_paginator("list_object_versions").paginate(Bucket=bucket):
        shown = [(entry, _asked_for(direct, bucket, entry)) for entry in page.get("Versions", ())]
        shown += [(entry, Shown(entry["VersionId"])) for entry in page.get("DeleteMarkers", ())]
        for entry, version in shown:
            others.setdefault(entry["Key"], set())
            if entry["IsLatest"]:
                current[entry["Key"]] = version
            else:
                others[entry["Key"]].add(version)
    uploads = direct.get_paginator("list_multipart_uploads").paginate(Bucket=bucket)
    return Contents(
        {key: (current[key], frozenset(others[key])) for key in others},
        {upload["UploadId"]: upload["Key"] for page in uploads for upload in page.get("Uploads", ())},
    )


def _asked_for(direct: Any, bucket: str, entry: Any) -> Shown:
    """The listing's own ETag is another one for a null version that was uploaded in parts."""
    named = {"Bucket": bucket, "Key": entry["Key"], "VersionId": entry["VersionId"]}
    head = direct.head_object(**named)
    tags = direct.get_object_tagging(**named)["TagSet"]
    return Shown(
        entry["VersionId"],
        head["ETag"].strip('"'),
        head["ContentLength"],
        head.get("StorageClass", "STANDARD"),
        tuple(sorted((tag["Key"], tag["Value"]) for tag in tags)),
    )
