"""A bare SeaweedFS behind a location, which can be stopped and started again with its contents."""

from __future__ import annotations

import json
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from running_service import PoolKey, s3_client

from tidegate.pools.backends.ports_range import free_blocks

_DOORS = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")
_START_SECONDS = 90


class DeletionStore:
    bucket = "cold"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = PoolKey("", "COLDKEY", "cold-secret")
        self._ports = dict(zip(_DOORS, next(iter(free_blocks((26000, 26999), len(_DOORS)))), strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("volumes", "master", "filer"):
            (directory / name).mkdir(parents=True)
        identity = {
            "name": "service",
            "credentials": [{"accessKey": self._key.access_key, "secretKey": self._key.secret_key}],
            "actions": ["Admin"],
        }
        (directory / "s3.json").write_text(json.dumps({"identities": [identity]}))
        (directory / "filer.toml").write_text('[leveldb2]\nenabled = true\ndir = "filer"\n')

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3']}"

    @property
    def access_key(self) -> str:
        return self._key.access_key

    @property
    def secret_key(self) -> str:
        return self._key.secret_key

    def client(self, **options: Any) -> Any:
        return s3_client(self.url, self._key, **options)

    def keys(self, prefix: str = "") -> set[str]:
        listed = self.client().list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return {entry["Key"] for entry in listed.get("Contents", [])}

    def start(self) -> None:
        ports = [f"-{name.split('.')[0]}.port{'.grpc' * ('.' in name)}={port}" for name, port in self._ports.items()]
        options = [
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer=true",
            "-s3=true",
            "-dir=volumes",
            "-master.dir=master",
        ]
        options += ["-master.peers=none", "-master.telemetry=false", "-volume.max=1000", "-volume.preStopSeconds=0"]
        options += ["-master.volumeSizeLimitMB=1024", "-volume.minFreeSpace=64MiB", "-filer.localSocket=filer.sock"]
        options += ["-s3.localSocket=s3.sock", "-s3.config=s3.json", "-s3.iam=false", "-s3.port.iceberg=0"]
        options += ["-s3.port.lance=0", *ports]
        weed = str(Path(sysconfig.get_path("scripts")) / "weed")
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [weed, "-logtostderr=true", "server", *options], cwd=self._directory, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, (self._directory / "log").read_text()
            time.sleep(0.2)

    def _answers(self) -> bool:
        client = self.client(retries=1, connect_timeout=2, read_timeout=5)
        try:
            if self.bucket not in {entry["Name"] for entry in client.list_buckets()["Buckets"]}:
                client.create_bucket(Bucket=self.bucket)
            # Buckets are known a while before there is a place for data.
            put = client.put_object(Bucket=self.bucket, Key="probe", Body=b"answers")
            version = {"VersionId": put["VersionId"]} if "VersionId" in put else {}
            client.delete_object(Bucket=self.bucket, Key="probe", **version)
        except (BotoCoreError, ClientError):
            return False
        return True

    def stop(self) -> None:
        """Its store stands a kill."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
