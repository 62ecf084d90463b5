"""A second real store: a bare SeaweedFS with a credential of its own, such as a location has behind it.

Nothing of Tidegate stands before it. `stop` and `start` let it fail for a while on the same address, with its contents.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import sysconfig
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError
from running_service import PoolKey, s3_client

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import servers

_FILER = '[leveldb2]\nenabled = true\ndir = "filer"\n'
_PARTS = ("master", "volume", "filer", "s3")


@dataclass
class SecondStore:
    """`bucket` is there from the start. With `certificate` and `private_key` (PEM files) it speaks TLS alone; the
    certificate in the file `authority` has signed its own."""

    directory: Path
    bucket: str = "cold"
    certificate: Path | None = None
    private_key: Path | None = None
    authority: Path | None = None
    access_key: str = field(default_factory=lambda: f"SECOND{secrets.token_hex(7).upper()}")
    secret_key: str = field(default_factory=lambda: secrets.token_urlsafe(30))
    _ports: dict[str, int] = field(default_factory=dict)
    _running: AbstractContextManager[servers.Server] | None = None
    _server: servers.Server | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.certificate else 'http'}://127.0.0.1:{self._ports['s3']}"

    @property
    def secret_file(self) -> Path:
        """The secret key, as commands want it."""
        return self.directory / "secret"

    def start(self) -> Self:
        """Returns when it answers to its credential and has its bucket."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in ("volumes", "master", "filer"):
            (self.directory / name).mkdir(exist_ok=True)
        (self.directory / "filer.toml").write_text(_FILER)
        (self.directory / "identities.json").write_text(json.dumps(self._identities()))
        self.secret_file.touch(mode=0o600)
        self.secret_file.write_text(self.secret_key + "\n")
        if not self._ports:
            self._ports = {name: servers.free_port() for part in _PARTS for name in (part, f"{part}.grpc")}
        self._running = servers.running(self._command(), self.directory, self._ports["s3"], self._answers)
        self._server = self._running.__enter__()
        return self

    def stop(self) -> None:
        """The volume server closes its files first; the filer, which stands a kill, would wait for it for long."""
        running, self._running = self._running, None
        if running is None or self._server is None:
            return
        self._server.process.terminate()
        deadline = time.monotonic() + servers.STOP_SECONDS
        while self._listens("volume") and time.monotonic() < deadline:
            time.sleep(0.05)
        self._server.process.kill()
        running.__exit__(None, None, None)
        for part in _PARTS:
            Path(f"/tmp/seaweedfs-{part}-grpc-{self._ports[f'{part}.grpc']}.sock").unlink(missing_ok=True)
            Path(self._socket(part)).unlink(missing_ok=True)

    def _listens(self, part: str) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._ports[part]), 1):
            return True
        return False

    def client(self, **options: Any) -> Any:
        """A boto3 client that sees all of it."""
        key = PoolKey("", self.access_key, self.secret_key)
        return s3_client(self.url, key, verify=str(self.authority) if self.authority else None, **options)

    def keys(self, bucket: str = "", prefix: str = "") -> set[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket or self.bucket, Prefix=prefix)
        return {entry["Key"] for page in pages for entry in page.get("Contents", [])}

    def uploads(self, bucket: str = "") -> set[str]:
        """The ids of uploads that were neither completed nor aborted."""
        found = self.client().list_multipart_uploads(Bucket=bucket or self.bucket)
        return {entry["UploadId"] for entry in found.get("Uploads", [])}

    def _identities(self) -> dict[str, Any]:
        credential = {"accessKey": self.access_key, "secretKey": self.secret_key}
        return {"identities": [{"name": "second", "credentials": [credential], "actions": ["Admin"]}]}

    def _command(self) -> list[str]:
        ports = [
            f"-{name.removesuffix('.grpc')}.port{'.grpc' if name.endswith('.grpc') else ''}={port}"
            for name, port in self._ports.items()
        ]
        tls = [f"-s3.cert.file={self.certificate}", f"-s3.key.file={self.private_key}"] if self.certificate else []
        return [
            str(Path(sysconfig.get_path("scripts")) / "weed"),
            "-logtostderr=true",
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer=true",
            "-s3=true",
            *ports,
            "-dir=volumes",
            "-master.dir=master",
            "-master.peers=none",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=1024",
            "-volume.max=1000",
            "-volume.preStopSeconds=0",
            "-volume.minFreeSpace=64MiB",
            f"-filer.localSocket={self._socket('filer')}",
            f"-s3.localSocket={self._socket('s3')}",
            "-s3.config=identities.json",
            "-s3.iam=false",
            "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            *tls,
        ]

    def _socket(self, part: str) -> str:
        """Paths of sockets are short."""
        return f"/tmp/second-{part}-{os.getpid()}-{self._ports[part]}.sock"

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
