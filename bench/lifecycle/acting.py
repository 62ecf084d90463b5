"""`python -m bench.lifecycle.acting`: deleting what is due, beside SeaweedFS's own worker and bare DeleteObjects.

Small objects, all of them due. Tidegate's pass is a real one, asked for as `tidegate pass run` does it, in a service
whose Spark session is warm: it lands the log, plans, publishes tasks, and ends when every object is deleted, journalled
and in the audit trail. The bare client has eight threads that delete a thousand keys at a time, straight at the same
store. SeaweedFS's worker has a store of its own, set up in the same way.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import click
from botocore.config import Config

from bench.gateway.load import Job, drive
from bench.gateway.requests import Target
from bench.gateway.servers import Tidegate, backend_of, running_tidegate
from bench.lifecycle.weed_store import running_weed
from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.lifecycle.pass_inspection import PassInspector, PassProgressView
from tidegate.pools.backends.ports_range import HOST

GOAL_OF_BARE, GOAL_OF_WORKER = 0.9, 1.5
_DAY_SECONDS = 20.0
_BYTES = 64
_CONNECTIONS = 16
_THREADS, _KEYS_AT_ONCE = 8, 1000
_PATIENCE_SECONDS = 600.0
_ONE_DAY = {"ID": "one-day", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
_LONG_AGO = {
    "ID": "date",
    "Status": "Enabled",
    "Filter": {"Prefix": ""},
    "Expiration": {"Date": "2020-01-01T00:00:00Z"},
}


@dataclass(slots=True)
class Figures:
    """Seconds for all objects; of the pass also those of each stage."""

    objects: int
    whole_pass: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    bare: float = 0.0
    worker: float = 0.0


def run(objects: int = 20_000) -> bool:
    """Prints a table. Says whether the goals were reached."""
    found = Figures(objects)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home:
        settings = ("gateway.port=0", "api.port=0", f"lifecycle.day_seconds={_DAY_SECONDS}")
        with running_tidegate(Path(home, "tidegate"), *settings) as service, _inspector(service) as inspector:
            _measure_pass(service, inspector, found)
            _measure_bare(service, found)
        _measure_worker(Path(home, "weed"), found)
    print(_table(found))
    return found.bare / found.whole_pass >= GOAL_OF_BARE and found.worker / found.whole_pass >= GOAL_OF_WORKER


@click.command()
@click.option("--objects", default=20_000, help="Objects in each bucket, all of them due.")
def main(objects: int) -> None:
    """Objects per second of a warm pass, of SeaweedFS's worker and of bare deletes."""
    if not run(objects):
        raise SystemExit(1)


@contextmanager
def _inspector(service: Tidegate) -> Iterator[PassInspector]:
    settings = settings_module.restore((service.data / "run" / "settings.json").read_text())
    tables = open_tables(settings, service.data)
    try:
        yield PassInspector(tables, settings.lifecycle, service.data)
    finally:
        tables.close()


def _measure_pass(service: Tidegate, inspector: PassInspector, found: Figures) -> None:
    """Two passes go before: one that gets to know the buckets, and one with a few objects that warms everything up."""
    gateway = Target("gateway", service.host, service.port, service.access_key, service.secret_key)
    client = _client(gateway)
    for bucket in ("warm-up", "acted"):
        client.create_bucket(Bucket=bucket)
        client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [_ONE_DAY]})
    _pass(inspector, "", 0)
    _fill(gateway, "warm-up", 100)
    time.sleep(1.5 * _DAY_SECONDS)
    _pass(inspector, "warm-up", 100)
    _fill(gateway, "acted", found.objects)
    time.sleep(1.5 * _DAY_SECONDS)
    found.whole_pass, found.stages = _pass(inspector, "acted", found.objects)
    _check_empty(client, "acted")


def _pass(inspector: PassInspector, bucket: str, expected: int) -> tuple[float, dict[str, float]]:
    """Runs a pass. Its seconds from the request to the end, and those of its stages."""
    moments: dict[str, float] = {}

    def watch(progress: PassProgressView | None) -> None:
        if progress is not None:
            moments.setdefault(progress.stage, time.time())

    began = time.time()
    request = inspector.submit(bucket)
    inspector.wait(request.id, watch)
    view = inspector.show(request.id)
    if view.status != "ok" or view.outcomes.get("DONE", 0) != expected or view.ended_at is None:
        raise SystemExit(f"the pass did not do what it should: {view}")
    ended = view.ended_at.timestamp()
    ends = [*list(moments.values())[1:], ended]
    stages = {stage: end - start for (stage, start), end in zip(moments.items(), ends, strict=True)}
    return ended - began, stages


def _measure_bare(service: Tidegate, found: Figures) -> None:
    host, _, port = backend_of(service).rpartition(":")
    store = Target("store", host, int(port), service.access_key, service.secret_key)
    gateway = Target("gateway", service.host, service.port, service.access_key, service.secret_key)
    _client(gateway).create_bucket(Bucket="bare")
    time.sleep(2)
    _fill(store, "bare", found.objects)
    client = _client(store)
    keys = [_key(number) for number in range(found.objects)]
    parts = [keys[start : start + _KEYS_AT_ONCE] for start in range(0, len(keys), _KEYS_AT_ONCE)]

    def delete(part: list[str]) -> None:
        client.delete_objects(Bucket="bare", Delete={"Objects": [{"Key": key} for key in part]})

    began = time.monotonic()
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(delete, parts))
    found.bare = time.monotonic() - began
    _check_empty(client, "bare")


def _measure_worker(directory: Path, found: Figures) -> None:
    with running_weed(directory) as weed:
        store = Target("weed", HOST, weed.s3_port, weed.access_key, weed.secret_key)
        client = _client(store)
        client.create_bucket(Bucket="own")
        time.sleep(2)
        _fill(store, "own", found.objects)
        client.put_bucket_lifecycle_configuration(Bucket="own", LifecycleConfiguration={"Rules": [_LONG_AGO]})
        found.worker = weed.run_worker()
        _check_empty(client, "own")


def _client(target: Target) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=f"http://{target.host}:{target.port}",
        aws_access_key_id=target.access_key,
        aws_secret_access_key=target.secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 10}, max_pool_connections=2 * _THREADS),
    )


def _fill(target: Target, bucket: str, objects: int) -> None:
    body = b"x" * _BYTES
    digest = hashlib.sha256(body).hexdigest()
    keys = [_key(number) for number in range(objects)]
    puts = [target.head("PUT", f"/{bucket}/{key}", length=_BYTES, digest=digest) + body for key in keys]
    done = drive(Job(target.host, target.port, puts, _CONNECTIONS, seconds=_PATIENCE_SECONDS, limit=len(puts)))
    if done.failures:
        raise SystemExit(f"the bucket {bucket} could not be filled: {done.failures}")


def _key(number: int) -> str:
    return f"folder-{number // 1000:03}/object-{number:07}"


def _check_empty(client: Any, bucket: str) -> None:
    left = client.list_objects_v2(Bucket=bucket)["KeyCount"]
    if left:
        raise SystemExit(f"{left} objects or more are left in {bucket}")


def _table(found: Figures) -> str:
    speeds = {
        "bare DeleteObjects, 8 threads": found.bare,
        "SeaweedFS's own worker": found.worker,
        "warm pass of Tidegate": found.whole_pass,
    }
    lines = [f"{'':<34} {'seconds':>8} {'objects/s':>10} {'pass':>8}", "-" * 63]
    lines += [
        f"{name:<34} {seconds:8.1f} {found.objects / seconds:10,.0f} {seconds / found.whole_pass:6.2f} x"
        for name, seconds in speeds.items()
    ]
    lines += [f"{'  of which ' + stage:<34} {seconds:8.1f}" for stage, seconds in found.stages.items()]
    acting = found.stages.get("acting", found.whole_pass)
    lines.append(
        f"{'  acting alone':<34} {acting:8.1f} {found.objects / acting:10,.0f} {acting / found.whole_pass:6.2f} x"
    )
    bare, worker = found.bare / found.whole_pass, found.worker / found.whole_pass
    goals = [f"goal {GOAL_OF_BARE} of bare deletes: {'reached' if bare >= GOAL_OF_BARE else 'MISSED'}"]
    goals.append(f"goal {GOAL_OF_WORKER} x the worker: {'reached' if worker >= GOAL_OF_WORKER else 'MISSED'}")
    return "\n".join([*lines, "", f"{found.objects:,} objects of {_BYTES} bytes; {'; '.join(goals)}"])


if __name__ == "__main__":
    main()
