"""`python -m bench.lifecycle.acting`: deleting what is due, beside SeaweedFS's own worker and bare DeleteObjects.

Small objects, all of them due. Tidegate's pass is a real one, asked for as `tidegate pass run` does it, in a service
whose Spark session is warm: it lands the log, plans, publishes tasks, and ends when every object is deleted, journalled
and in the audit trail. The bare client has eight threads that delete a thousand keys at a time, straight at the same
store. SeaweedFS's worker has a store of its own, set up in the same way. Rounds alternate over the three; what is shown
are medians.
"""

from __future__ import annotations

import hashlib
import socket
import statistics
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
from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool
from botocore.config import Config

from bench.gateway.load import Job, drive
from bench.gateway.requests import Target
from bench.gateway.servers import Tidegate, backend_of, running_tidegate
from bench.goals import word
from bench.lifecycle.service_parts import cpu_between, cpu_used
from bench.lifecycle.weed_store import running_weed
from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.lifecycle.queries.pass_inspection import PassInspector, PassProgressView
from tidegate.pools.backends.ports_range import HOST

GOAL_OF_BARE = 0.9
# A pass has fixed costs, which weigh less the more objects are due.
GOALS_OF_WORKER = {20_000: 1.0, 200_000: 1.3}
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

Seconds = dict[str, float]


@dataclass(slots=True)
class Figures:
    """Seconds for all objects, one figure for each round; of the pass also those of each stage, and the CPU seconds
    that each part of the service used while it acted, as the store did for the bare deletes."""

    objects: int
    whole_pass: list[float] = field(default_factory=list)
    stages: list[Seconds] = field(default_factory=list)
    cpu: list[Seconds] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    bare_cpu: list[Seconds] = field(default_factory=list)
    worker: list[float] = field(default_factory=list)

    @property
    def of_bare(self) -> float:
        return statistics.median(self.bare) / statistics.median(self.whole_pass)

    @property
    def of_worker(self) -> float:
        return statistics.median(self.worker) / statistics.median(self.whole_pass)


def run(objects: int = 20_000, rounds: int = 2) -> None:
    """Prints a table."""
    found = Figures(objects)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home:
        settings = ("gateway.port=0", "api.port=0", f"lifecycle.day_seconds={_DAY_SECONDS}")
        with running_tidegate(Path(home, "tidegate"), *settings) as service, _inspector(service) as inspector:
            _warm_up(service, inspector)
            for number in range(rounds):
                _measure_pass(service, inspector, f"acted-{number}", found)
                _measure_bare(service, f"bare-{number}", found)
                _measure_worker(Path(home, f"weed-{number}"), found)
    print(_table(found))


@click.command()
@click.option("--objects", default=20_000, help="Objects in each bucket, all of them due.")
@click.option("--rounds", default=2, help="How often each way is measured.")
def main(objects: int, rounds: int) -> None:
    """Objects per second of a warm pass, of SeaweedFS's worker and of bare deletes."""
    run(objects, rounds)


@contextmanager
def _inspector(service: Tidegate) -> Iterator[PassInspector]:
    settings = settings_module.restore((service.data / "run" / "settings.json").read_text())
    tables = open_tables(settings, service.data)
    try:
        yield PassInspector(tables, settings.lifecycle, service.data)
    finally:
        tables.close()


def _warm_up(service: Tidegate, inspector: PassInspector) -> None:
    """One pass that gets to know a bucket, and one that deletes a few objects."""
    gateway = _gateway(service)
    _make_bucket(service, inspector, "warm-up")
    _fill(gateway, "warm-up", 100)
    time.sleep(1.5 * _DAY_SECONDS)
    _pass(service, inspector, "warm-up", 100)


def _measure_pass(service: Tidegate, inspector: PassInspector, bucket: str, found: Figures) -> None:
    gateway = _gateway(service)
    client = _client(gateway)
    _make_bucket(service, inspector, bucket)
    _fill(gateway, bucket, found.objects)
    time.sleep(1.5 * _DAY_SECONDS)
    seconds, stages, cpu = _pass(service, inspector, bucket, found.objects)
    found.whole_pass.append(seconds)
    found.stages.append(stages)
    found.cpu.append(cpu)
    _check_empty(client, bucket)


def _gateway(service: Tidegate) -> Target:
    return Target("gateway", service.host, service.port, service.access_key, service.secret_key)


def _make_bucket(service: Tidegate, inspector: PassInspector, bucket: str) -> None:
    """With its rule, and known to the passes: the first pass over a bucket looks at everything in it."""
    client = _client(_gateway(service))
    client.create_bucket(Bucket=bucket)
    client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [_ONE_DAY]})
    _pass(service, inspector, bucket, 0)


def _pass(service: Tidegate, inspector: PassInspector, bucket: str, expected: int) -> tuple[float, Seconds, Seconds]:
    """Runs a pass. Its seconds from the request to the end, those of its stages, and the CPU seconds of the parts."""
    moments: Seconds = {}

    def watch(progress: PassProgressView | None) -> None:
        if progress is not None:
            moments.setdefault(progress.stage, progress.since.timestamp())

    used = cpu_used(service.data)
    began = time.time()
    request = inspector.submit(bucket)
    inspector.wait(request.id, watch)
    cpu = cpu_between(used, cpu_used(service.data))
    view = inspector.show(request.id)
    if view.status != "ok" or view.outcomes.get("DONE", 0) != expected or view.ended_at is None:
        raise SystemExit(f"the pass did not do what it should: {view}")
    ended = view.ended_at.timestamp()
    starts = {"waiting": began, **moments}
    ends = [*list(starts.values())[1:], ended]
    return ended - began, {stage: end - starts[stage] for stage, end in zip(starts, ends, strict=True)}, cpu


def _measure_bare(service: Tidegate, bucket: str, found: Figures) -> None:
    store = backend_of(service).target("store")
    _client(_gateway(service)).create_bucket(Bucket=bucket)
    time.sleep(2)
    _fill(store, bucket, found.objects)
    client = _client(store)
    keys = [_key(number) for number in range(found.objects)]
    requests = [keys[start : start + _KEYS_AT_ONCE] for start in range(0, len(keys), _KEYS_AT_ONCE)]

    def delete(part: list[str]) -> None:
        client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in part]})

    used, own = cpu_used(service.data), time.process_time()
    began = time.monotonic()
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(delete, requests))
    found.bare.append(time.monotonic() - began)
    client_cpu = time.process_time() - own
    found.bare_cpu.append({"client": client_cpu, "store": cpu_between(used, cpu_used(service.data))["store"]})
    _check_empty(client, bucket)


def _measure_worker(directory: Path, found: Figures) -> None:
    with running_weed(directory) as weed:
        store = Target("weed", HOST, weed.s3_port, weed.access_key, weed.secret_key)
        client = _client(store)
        client.create_bucket(Bucket="own")
        time.sleep(2)
        _fill(store, "own", found.objects)
        client.put_bucket_lifecycle_configuration(Bucket="own", LifecycleConfiguration={"Rules": [_LONG_AGO]})
        found.worker.append(weed.run_worker())
        _check_empty(client, "own")


def _client(target: Target) -> Any:
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{target.authority}",
        aws_access_key_id=target.access_key,
        aws_secret_access_key=target.secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 10}, max_pool_connections=2 * _THREADS),
    )
    client._endpoint.http_session._manager.pool_classes_by_scheme = {"http": _pool_class(target)}
    return client


def _pool_class(target: Target) -> type[AWSHTTPConnectionPool]:
    """Connections that botocore makes where the target is, be that a port or a Unix socket."""

    class Connection(AWSHTTPConnection):
        def _new_conn(self) -> socket.socket:
            return target.connect(timeout=60)

    class Pool(AWSHTTPConnectionPool):
        ConnectionCls = Connection

    return Pool


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
    whole = statistics.median(found.whole_pass)
    ways = {
        "bare DeleteObjects, 8 threads": statistics.median(found.bare),
        "SeaweedFS's own worker": statistics.median(found.worker),
        "warm pass of Tidegate": whole,
    }
    stages = _medians(found.stages)
    if "acting" in stages:
        ways["  acting alone"] = stages["acting"]
    lines = [f"{'':<34} {'seconds':>8} {'objects/s':>10} {'pass':>8}", "-" * 63]
    lines += [
        f"{name:<34} {seconds:8.1f} {found.objects / seconds:10,.0f} {seconds / whole:6.2f} x"
        for name, seconds in ways.items()
    ]
    lines += [
        "",
        f"stages of the pass, seconds: {_listed(stages)}",
        f"CPU seconds of the pass: {_listed(_medians(found.cpu))}",
        f"CPU seconds of the bare deletes: {_listed(_medians(found.bare_cpu))}",
    ]
    goals = [f"goal {GOAL_OF_BARE} of bare deletes: {found.of_bare:.2f}, {word(found.of_bare >= GOAL_OF_BARE)}"]
    goal = GOALS_OF_WORKER[
        max((size for size in GOALS_OF_WORKER if size <= found.objects), default=min(GOALS_OF_WORKER))
    ]
    goals.append(f"goal {goal} x the worker: {found.of_worker:.2f}, {word(found.of_worker >= goal)}")
    return "\n".join([*lines, "", f"{found.objects:,} objects of {_BYTES} bytes; {'; '.join(goals)}"])


def _medians(rounds: list[Seconds]) -> Seconds:
    """A stage that was too short to be seen in a round took no time there."""
    names = {name: None for seconds in rounds for name in seconds}
    return {name: statistics.median(seconds.get(name, 0.0) for seconds in rounds) for name in names}


def _listed(seconds: Seconds) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())


if __name__ == "__main__":
    main()
