"""What a manager needs of a backend, whatever server it is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidegate.core.errors import TidegateError
from tidegate.pools.backends.socket_directory import SocketDirectory
from tidegate.pools.owners import Account
from tidegate.settings import Isolation

# A disk with less space left counts as full.
LEAST_FREE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Launch:
    """What a backend is started with. `pause` waits so many seconds at most and raises when the start is to
    be given up; every wait of a start goes through it."""

    pool: str
    directory: Path
    account: Account
    log_file: Path
    socket: SocketDirectory
    isolation: Isolation
    ports: tuple[int, int]
    memory_limit_mb: int
    admin_key: str
    admin_secret: str
    pause: Callable[[float], None]


class StartFailed(TidegateError):
    """A backend could not be started. A definite failure would only repeat itself until somebody acts."""

    def __init__(self, why: str, *, definite: bool = False) -> None:
        super().__init__(why)
        self.definite = definite


class Backend(Protocol):
    """One running server."""

    @property
    def endpoint(self) -> str:
        """Where its S3 door is: the path of a Unix socket, or HOST:PORT."""

    @property
    def pid(self) -> int: ...

    def make_buckets(self, names: Collection[str]) -> None:
        """Makes those that are missing. Raises `Unavailable`."""

    def check(self, timeout: float) -> None:
        """Asks it something simple. Raises `Unavailable` when there is no good answer in time."""

    def exit_code(self) -> int | None:
        """None while it runs."""

    def stop(self, seconds: float) -> None:
        """Orderly if it can within so many seconds, by force then. Returns when the process is gone."""


Starter = Callable[[Launch], Backend]
