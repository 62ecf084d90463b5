"""What the benches of movement run on: a service with one pool, and a location on a bare SeaweedFS."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from bench.gateway.load import Job, drive
from bench.gateway.requests import Target
from bench.gateway.servers import Tidegate, running_tidegate
from bench.lifecycle.weed_store import WeedStore, running_weed
from tidegate import settings as settings_module
from tidegate.assembly import open_tables, open_topics
from tidegate.pools.backends.ports_range import HOST
from tidegate.ports import Tables, Topics
from tidegate.settings import Settings

LOCATION, LOCATION_BUCKET = "cold", "cold"
CONCURRENCY = 8
_PATIENCE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Stores:
    """`home` is a directory for whatever a bench needs."""

    home: Path
    service: Tidegate
    weed: WeedStore

    @property
    def gateway(self) -> Target:
        service = self.service
        return Target("gateway", service.host, service.port, service.access_key, service.secret_key)

    @property
    def location(self) -> Target:
        return target_of(self.weed, "location")

    @property
    def settings(self) -> Settings:
        return settings_module.restore((self.service.data / "run" / "settings.json").read_text())

    @contextmanager
    def state(self) -> Iterator[tuple[Tables, Topics]]:
        """The tables and topics of the service."""
        tables, topics = open_tables(self.settings, self.service.data), open_topics(self.settings, self.service.data)
        try:
            yield tables, topics
        finally:
            topics.close()
            tables.close()


@contextmanager
def running_stores(*settings: str) -> Iterator[Stores]:
    given = ("gateway.port=0", "api.port=0", "lifecycle.enabled=false", *settings)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        home = Path(directory)
        with running_weed(home / "location") as weed, running_tidegate(home / "tidegate", *given) as service:
            client(target_of(weed, "location")).create_bucket(Bucket=LOCATION_BUCKET)
            _create_location(home, service, weed)
            yield Stores(home, service, weed)


def target_of(weed: WeedStore, name: str) -> Target:
    return Target(name, HOST, weed.s3_port, weed.access_key, weed.secret_key)


def client(target: Target) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=f"http://{target.authority}",
        aws_access_key_id=target.access_key,
        aws_secret_access_key=target.secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 10}, max_pool_connections=16),
    )


def put_objects(
    target: Target,
    bucket: str,
    keys: Sequence[str],
    size: int,
    file: Path,
    *,
    headers: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """Objects of so many bytes, whose data is in the file afterwards; gives its MD5. `headers` are those of some keys;
    the keys need no quoting in a path."""
    pattern = hashlib.sha256(b"tidegate").digest() * 32
    data = (pattern * (size // len(pattern) + 1))[:size]
    file.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    of_key = headers or {}
    heads = [
        target.head("PUT", f"/{bucket}/{key}", length=size, digest=digest, headers=of_key.get(key)) for key in keys
    ]
    job = Job(target.host, target.port, heads, CONCURRENCY, _PATIENCE_SECONDS, limit=len(heads), body_file=str(file))
    done = drive(job)
    if done.failures:
        raise SystemExit(f"the bucket {bucket} could not be filled: {done.failures}")
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _create_location(home: Path, service: Tidegate, weed: WeedStore) -> None:
    secret = home / "secret"
    secret.touch(mode=0o600)
    secret.write_text(weed.secret_key)
    command = [
        str(Path(sys.executable).parent / "tidegate"), "location", "create", LOCATION, "--data", str(service.data),
        "--endpoint", f"http://{HOST}:{weed.s3_port}", "--bucket", LOCATION_BUCKET, "--prefix", "moved/",
        "--access-key", weed.access_key, "--secret-key-file", str(secret), "--concurrency", str(CONCURRENCY),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
