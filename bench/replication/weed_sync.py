"""SeaweedFS's own synchronization of one store with another: `weed filer.sync`, from one directory to another."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from bench.lifecycle.weed_store import WeedStore, weed
from bench.movement.copy_figures import Case, check_arrived
from bench.movement.stores import client, target_of
from tidegate.pools.backends.ports_range import HOST

_PATIENCE_SECONDS = 900.0
_POLL_SECONDS = 0.1


def synchronized(source: WeedStore, path: str, target: WeedStore, bucket: str, case: Case, log: Path) -> float:
    """Seconds from the start of the program until all objects of the case have arrived in the bucket."""
    client(target_of(target, "target")).create_bucket(Bucket=bucket)
    command = [
        weed(), "-logtostderr=true", "filer.sync", "-isActivePassive", f"-a={_filer(source)}", f"-b={_filer(target)}",
        f"-a.path=/buckets/{path}", f"-b.path=/buckets/{bucket}", "-a.fromTsMs=1",
    ]  # fmt: skip
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent)
    try:
        while _arrived(target, bucket) < case.objects:
            if process.poll() is not None or time.monotonic() - began > _PATIENCE_SECONDS:
                raise SystemExit(f"weed filer.sync did not bring all objects: {log.read_text()[-2000:]}")
            time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - began
    finally:
        process.terminate()
        process.wait()
    check_arrived(target_of(target, "target"), bucket, "", case)
    return seconds


def _filer(store: WeedStore) -> str:
    return f"{HOST}:{store.ports['filer']}.{store.ports['filer'] + 1}"


def _arrived(store: WeedStore, bucket: str) -> int:
    pages = client(target_of(store, "target")).get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return sum(page["KeyCount"] for page in pages)
