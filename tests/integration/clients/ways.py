"""The two ways that every client test goes: through the gateway, and straight to the backend of the same pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from direct_backend import direct_backend
from running_service import PoolKey, RunningService, s3_client

MIB = 1 << 20


@dataclass(frozen=True)
class Way:
    """An endpoint with a key that may do everything there."""

    name: str
    url: str
    key: PoolKey

    @property
    def authority(self) -> str:
        return self.url.partition("://")[2]

    def s3(self, **config: Any) -> Any:
        return s3_client(self.url, self.key, **config)

    def environment(self, home: Path) -> dict[str, str]:
        """For command-line clients: nothing of the machine's own configuration is seen."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "AWS_ACCESS_KEY_ID": self.key.access_key,
            "AWS_SECRET_ACCESS_KEY": self.key.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@dataclass(frozen=True)
class Ways:
    service: RunningService
    gateway: Way
    waker: str

    @property
    def direct(self) -> Way:
        """To the backend that runs now: one that nobody used for a while is stopped, and the next one has another key.
        A look at the bucket `waker` starts it."""
        self.gateway.s3().head_bucket(Bucket=self.waker)
        return Way("direct", *direct_backend(self.service, self.gateway.key.pool))

    def compared(self, script: Callable[[Way], Any]) -> Any:
        """What the script gives through the gateway, having found that it gives the same at the backend."""
        through, direct = script(self.gateway), script(self.direct)
        assert through == direct, f"through the gateway {through}, directly {direct}"
        return through


@dataclass(frozen=True)
class Files:
    """Test contents by name of their size."""

    directory: Path
    sizes: dict[str, int]

    def path(self, name: str) -> Path:
        return self.directory / name

    def contents(self, name: str) -> bytes:
        return self.path(name).read_bytes()
