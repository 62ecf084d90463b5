"""A service of which some part lies on a small file system, and clients that write to it all the while.

The file system is a tmpfs in a mount namespace of the service's own, so that ordinary users can have one, too. Its
files are seen from outside through `/proc`.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import user_namespace
from botocore.exceptions import BotoCoreError, ClientError
from open_places import service_user
from running_service import PoolKey, RunningService, words_of

from tidegate import processes

_MAKE_DIRECTORIES = 'cd "$1" && mkdir -p data pool log-table && chown "$2" data pool log-table && shift 2 && exec "$@"'
_SERVING = ("gateway.serve", "web.serve", "movement.serve", "lifecycle.serve", "lifecycle.serve_passes")
_MODULES = [f"tidegate.{name}" for name in _SERVING]
_BLOCK = bytes(1 << 20)


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.1)


@dataclass
class SmallDiskService(RunningService):
    """`small` is where the small file system is mounted."""

    small: Path = field(default_factory=Path)
    size: str = "256m"

    def command_prefix(self) -> list[str]:
        self.small.mkdir(parents=True, exist_ok=True)
        on_small_disk = user_namespace.prefix("--small", self.size, str(self.small))
        owner = f"{service_user().pw_uid}:{service_user().pw_gid}"
        return [*on_small_disk, "sh", "-c", _MAKE_DIRECTORIES, "sh", str(self.small), owner]

    def run_cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", "--preserve-credentials", "-U", "-m", "-t", str(self.pid)]
        return subprocess.run(
            [*inside, *self.cli_command(*words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=240
        )

    def _ready(self, file: Path) -> bool:
        return super()._ready(self.seen(file))

    def seen(self, path: Path) -> Path:
        """The path as this process can use it."""
        return Path(f"/proc/{self.pid}/root{path}")

    def fill(self) -> None:
        """Until not a byte is left."""
        with self.seen(self.small / "filler").open("ab", buffering=0) as file:
            size = len(_BLOCK)
            while size:
                try:
                    file.write(_BLOCK[:size])
                except OSError:
                    size //= 2

    def free(self) -> None:
        self.seen(self.small / "filler").unlink()

    def parts(self) -> dict[str, list[int]]:
        """The process ids of everything that the supervisor keeps running, by module."""
        children = processes.children_of(self.pid)
        words = {pid: words_of(Path(f"/proc/{pid}")) for pid in children}
        return {module: sorted(pid for pid in children if module.encode() in words[pid]) for module in _MODULES}


class Writers:
    """Clients that put objects, each under a key of its own, and remember what was acknowledged."""

    def __init__(self, service: RunningService, key: PoolKey, bucket: str, count: int = 4) -> None:
        self._service = service
        self._key = key
        self._bucket = bucket
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged: dict[str, str] = {}
        self.refused: list[int] = []
        self._counts = [0] * count
        self._ended = [0] * count
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def client(self) -> Any:
        return self._service.s3(self._key, retries=1, connect_timeout=10, read_timeout=90)

    def _write(self, number: int) -> None:
        s3, dice, count = self.client(), random.Random(number), 0
        while not self._over.is_set():
            count += 1
            key, body = f"{number}/{count}", dice.randbytes(dice.choice((10, 5_000, 70_000, 300_000)))
            try:
                s3.put_object(Bucket=self._bucket, Key=key, Body=body)
            except ClientError as error:
                with self._lock:
                    self.refused.append(int(error.response["ResponseMetadata"]["HTTPStatusCode"]))
            except BotoCoreError:
                with self._lock:
                    self.refused.append(0)
            else:
                with self._lock:
                    self.acknowledged[key] = hashlib.md5(body).hexdigest()
                    self._counts[number] += 1
            self._ended[number] += 1
            time.sleep(0.05)

    def progress(self, more: int, seconds: float) -> None:
        """Each of them: a store that is broken in parts serves some and not others."""
        goals = [count + more for count in self._counts]
        until(
            lambda: all(count >= goal for count, goal in zip(self._counts, goals, strict=True)),
            seconds,
            f"{more} more objects of each client are acknowledged",
        )

    def some_refused(self, more: int, seconds: float) -> None:
        """And nothing is under way any more that was begun before."""
        goal, ended = len(self.refused) + more, list(self._ended)
        until(
            lambda: len(self.refused) >= goal and all(now > then for now, then in zip(self._ended, ended, strict=True)),
            seconds,
            f"{more} more objects are refused",
        )

    def lost(self) -> list[str]:
        """Keys of acknowledged objects that are not there with their bytes."""
        s3 = self._service.s3(self._key)
        return [key for key, digest in self.acknowledged.items() if _digest(s3, self._bucket, key) != digest]

    def stored(self) -> set[str]:
        pages = self._service.s3(self._key).get_paginator("list_objects_v2").paginate(Bucket=self._bucket)
        return {entry["Key"] for page in pages for entry in page.get("Contents", ())}

    def logged(self) -> dict[str, str]:
        """ETags of the objects put, by key, as the metadata log has them."""
        done = self._service.run_cli("metalog", "tail", "-n", "100000", "--bucket", self._bucket, "--json")
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return {event["key"]: event["etag"] for event in events if event["operation"] == "put"}


def _digest(s3: Any, bucket: str, key: str) -> str:
    try:
        body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        return str(error)
    return hashlib.md5(body).hexdigest()


def linked(data: Path, name: str, target: Path) -> None:
    """Lets a part of the data directory lie elsewhere."""
    data.mkdir(parents=True, exist_ok=True)
    (data / name).symlink_to(target)
