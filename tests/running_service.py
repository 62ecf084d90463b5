"""A real `tidegate up` on a data directory of its own, and ways to talk to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import boto3
import httpx
from botocore import UNSIGNED
from botocore.config import Config

ROOT = Path(__file__).parent.parent
TIDEGATE = ROOT / ".venv" / "bin" / "tidegate"

# Short intervals, free ports, two gateways: what a test needs unless it says otherwise.
SETTINGS: dict[str, Any] = {
    "gateway.port": 0,
    "gateway.processes": 2,
    "gateway.drain_seconds": 2,
    "gateway.registration_seconds": 2,
    "gateway.healing_seconds": 4,
    "api.port": 0,
    "pools.heartbeat_seconds": 1,
    # What tests are done with shall not go on using the machine.
    "pools.idle_seconds": 120,
    "pools.watch_seconds": 0.2,
    "pools.mutex_seconds": 15,
    "pools.retry_seconds": 0.5,
}
_START_SECONDS = 120
_STOP_SECONDS = 60


@dataclass(frozen=True)
class PoolKey:
    """What `tidegate pool create` printed."""

    pool: str
    access_key: str
    secret_key: str


@dataclass
class RunningService:
    data: Path
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    endpoints: dict[str, Any] = field(default_factory=dict)

    def start(self) -> Self:
        """Returns when it is ready; otherwise the error holds its log."""
        self.data.mkdir(parents=True, exist_ok=True)
        command = [*self.command_prefix(), str(TIDEGATE), "up", "--data", str(self.data), *self.options]
        for name, value in (SETTINGS | self.settings).items():
            text = value if isinstance(value, str) else json.dumps(value)
            command += ["--set", f"{name}={text}"]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | self.environment
            )
        file = self.data / "run" / "endpoints.json"
        deadline = time.monotonic() + _START_SECONDS
        while not self._ready(file):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise RuntimeError(f"tidegate up did not become ready:\n{self.log()}")
            time.sleep(0.1)
        return self

    def command_prefix(self) -> list[str]:
        """What is to run the command, if anything is."""
        return []

    def _ready(self, file: Path) -> bool:
        """A file left by an earlier, killed service names another process."""
        if file.exists():
            self.endpoints = json.loads(file.read_text())
        return self.process is not None and self.endpoints.get("pid") == self.process.pid

    @property
    def log_file(self) -> Path:
        return self.data.with_name(f"{self.data.name}.up.log")

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def s3_url(self) -> str:
        return str(self.endpoints["s3"])

    @property
    def api_url(self) -> str:
        return str(self.endpoints["api"])

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ends it in order and returns its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(_STOP_SECONDS)

    def end(self) -> None:
        """For clean-up: ends whatever still runs on the data directory, in order if that is possible."""
        if self.process is not None and self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)

    def processes(self) -> list[int]:
        """Every process on this machine that names the data directory in its command line or works in it."""
        entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return [int(entry.name) for entry in entries if int(entry.name) != os.getpid() and self._belongs(entry)]

    def pids_of(self, module: str) -> list[int]:
        """Of its processes those that run this Python module."""
        return [pid for pid in self.processes() if module.encode() in words_of(Path(f"/proc/{pid}"))]

    def _belongs(self, entry: Path) -> bool:
        words = words_of(entry)
        try:
            inside = (entry / "cwd").resolve().is_relative_to(self.data)
        except OSError:
            return False
        return inside or any(word == os.fsencode(self.data) for word in words)

    def gateway_pids(self) -> set[int]:
        return {entry["pid"] for entry in self.cli("gateway", "list")}

    def cli(self, *words: str) -> Any:
        """Runs a command with --json and returns what it printed; an error raises with its message."""
        done = self.run_cli(*words, "--json")
        if done.returncode != 0:
            raise RuntimeError(f"tidegate {' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout)

    def run_cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.cli_command(*words), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=240
        )

    def cli_command(self, *words: str) -> list[str]:
        return [str(TIDEGATE), *words, "--data", str(self.data)]

    def create_pool(self, name: str, *options: str) -> PoolKey:
        made = self._created("pools", {"name": name}, options) or self.cli("pool", "create", name, *options)
        return PoolKey(made["pool"], made["access_key"], made["secret_key"])

    def create_key(self, pool: str, *options: str) -> PoolKey:
        made = self._created(f"pools/{pool}/keys", {}, options) or self.cli("key", "create", pool, *options)
        return PoolKey(pool, made["access_key"], made["secret_key"])

    def _created(self, path: str, body: dict[str, str], options: tuple[str, ...]) -> Any:
        """What the API made by a command's options; None where only the command can. The command takes long."""
        if self.process is None or self.process.poll() is not None or {"--expires", "--owner"} & set(options):
            return None
        given = {name[2:].replace("-", "_"): value for name, value in zip(options[::2], options[1::2], strict=True)}
        with self.api() as api:
            return api.post(f"/api/v1/{path}", json=body | given).raise_for_status().json()

    def s3(self, key: PoolKey | None, *, retries: int = 5, **config: Any) -> Any:
        """A boto3 client for the key at the gateway; without a key an anonymous one."""
        return s3_client(self.s3_url, key, retries=retries, **config)

    def api(self, **options: Any) -> httpx.Client:
        """A client of the HTTP API with the admin token."""
        headers = {"Authorization": f"Bearer {self.endpoints['admin_token']}"}
        return httpx.Client(base_url=self.api_url, headers=headers, timeout=60, **options)


def words_of(process: Path) -> list[bytes]:
    """Its command line; empty when it has ended."""
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def s3_client(url: str, key: PoolKey | None, *, retries: int = 5, verify: str | None = None, **config: Any) -> Any:
    """`verify` is a file with the authorities that are trusted in place of the system's."""
    options: dict[str, Any] = {
        "s3": {"addressing_style": "path"},
        "retries": {"total_max_attempts": retries, "mode": "standard"},
    }
    if key is None:
        options["signature_version"] = UNSIGNED
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        verify=verify,
        aws_access_key_id=key.access_key if key else None,
        aws_secret_access_key=key.secret_key if key else None,
        config=Config(**(options | config)),
    )
