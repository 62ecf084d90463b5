"""A SeaweedFS of its own, set up as a pool's backend is but open to everybody here, and its own lifecycle worker."""

from __future__ import annotations

import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tidegate.pools.backends.ports_range import HOST, free_blocks

_DOORS = ("master", "volume", "filer", "s3")
_START_SECONDS = 60.0
_WORKER_SECONDS = 600.0
_PORTS = (25000, 26999)
_IDENTITIES = """{"identities": [{"name": "bench", "credentials": [{"accessKey": "bench", "secretKey": "bench"}],
"actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}"""


@dataclass(frozen=True, slots=True)
class WeedStore:
    """`ports` are those for HTTP; each has its gRPC twin right behind it."""

    ports: dict[str, int]
    access_key: str = "bench"
    secret_key: str = "bench"

    @property
    def s3_port(self) -> int:
        return self.ports["s3"]

    def run_worker(self) -> float:
        """One round of the lifecycle worker over all shards; returns its seconds."""
        command = f"s3.lifecycle.run-shard -shards 0-15 -s3 {HOST}:{self.ports['s3'] + 1} -events 0\nexit\n"
        doors = [f"-{door}={HOST}:{self.ports[door]}.{self.ports[door] + 1}" for door in ("master", "filer")]
        began = time.monotonic()
        done = subprocess.run(
            [weed(), "shell", *doors], input=command, capture_output=True, text=True, timeout=_WORKER_SECONDS
        )
        if done.returncode or "error" in done.stdout:
            raise SystemExit(f"SeaweedFS's lifecycle worker failed: {done.stdout[-500:]}{done.stderr[-500:]}")
        return time.monotonic() - began


@contextmanager
def running_weed(directory: Path) -> Iterator[WeedStore]:
    for folder in ("volumes", "master"):
        (directory / folder).mkdir(parents=True)
    (directory / "filer.toml").write_text('[leveldb2]\nenabled = true\ndir = "filer"\n')
    (directory / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")
    (directory / "identities.json").write_text(_IDENTITIES)
    block = next(iter(free_blocks(_PORTS, 2 * len(_DOORS))))
    store = WeedStore(dict(zip(_DOORS, block[::2], strict=True)))
    ports = [f"-{door}.port={port}" for door, port in store.ports.items()]
    twins = [f"-{door}.port.grpc={port + 1}" for door, port in store.ports.items()]
    with (directory / "weed.log").open("wb") as log:
        process = subprocess.Popen(
            [
                weed(), "-logtostderr=true", "server", f"-ip={HOST}", f"-ip.bind={HOST}", "-filer=true", "-s3=true",
                *ports, *twins, "-dir=volumes", "-master.dir=master", "-master.peers=none", "-master.telemetry=false",
                "-volume.max=100000", "-master.volumeSizeLimitMB=10240", "-volume.preStopSeconds=0",
                "-s3.config=identities.json", "-s3.port.iceberg=0", "-s3.port.lance=0",
            ],
            cwd=directory, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait(process, store)
        yield store
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], store: WeedStore) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{HOST}:{store.s3_port}",
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}),
    )
    give_up = time.monotonic() + _START_SECONDS
    while True:
        try:
            client.list_buckets()
            return
        except (BotoCoreError, ClientError) as error:
            if process.poll() is not None or time.monotonic() > give_up:
                raise SystemExit(f"SeaweedFS did not start: {error}") from None
            time.sleep(0.2)


def weed() -> str:
    return str(Path(sysconfig.get_path("scripts")) / "weed")
