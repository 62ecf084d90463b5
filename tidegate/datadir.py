"""The data directory: its layout, who runs on it, and the small files in it that must be private and whole.

| path                 | what                                                       |
| -------------------- | ---------------------------------------------------------- |
| `run/lock`           | held by the supervisor, with its pid                       |
| `run/settings.json`  | the settings in force, secrets included                    |
| `run/endpoints.json` | addresses, admin token and pid, present while ready        |
| `run/metrics/`       | the processes' metrics                                     |
| `log/`, `pools/`     | logs; the default place of pools                           |
| `admin.token`        | the API's token, made at first start                       |
| `demo.json`          | key and secret of the pool `demo`, if `up --demo` made one |
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidegate import settings as settings_module
from tidegate.core.errors import Conflict, InvalidInput, Unavailable
from tidegate.settings import Settings

# A command that only looks whether a service runs holds the lock for an instant.
_LOCK_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What `run/endpoints.json` says."""

    s3: str
    api: str
    admin_token: str
    pid: int


class DataDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.resolve()  # one spelling: processes are found by it
        self.run = self.path / "run"
        self.log = self.path / "log"
        self.pools = self.path / "pools"
        self.metrics = self.run / "metrics"
        self.settings_file = self.run / "settings.json"
        self.endpoints_file = self.run / "endpoints.json"
        self.lock_file = self.run / "lock"
        self.token_file = self.path / "admin.token"
        self.demo_file = self.path / "demo.json"

    def prepare(self) -> None:
        """Makes what is missing. `pools` can be entered, for pools whose backends run as their owners."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for directory, mode in ((self.run, 0o700), (self.metrics, 0o700), (self.log, 0o755), (self.pools, 0o711)):
                directory.mkdir(exist_ok=True)
                directory.chmod(mode)
        except OSError as error:
            raise InvalidInput(f"the data directory {self.path} cannot be used: {error.strerror}") from None

    def acquire(self) -> int:
        """Takes the directory for this process; the lock goes when the returned descriptor is closed."""
        fd = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
        while not _try_lock(fd, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                holder = os.pread(fd, 20, 0).decode().strip() or "unknown"
                os.close(fd)
                raise Conflict(
                    f"Tidegate already runs on {self.path} (pid {holder}); stop it first (kill {holder}) "
                    "or give another --data directory"
                )
            time.sleep(0.05)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        return fd

    def runs(self) -> bool:
        """Whether a supervisor holds the directory."""
        try:
            fd = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError:
            raise InvalidInput(f"{self.path} belongs to another user: run this as the one who runs Tidegate") from None
        try:
            return not _try_lock(fd, fcntl.LOCK_SH)
        finally:
            os.close(fd)

    def settings(self, *, config: Path | None = None, overrides: tuple[str, ...] = ()) -> Settings:
        """The settings in force: those of the running service, otherwise those it would start with."""
        if self.runs() and self.settings_file.exists():
            return settings_module.restore(self.settings_file.read_text())
        return settings_module.load(self.path, config=config, overrides=overrides)

    def write_settings(self, settings: Settings) -> None:
        write_private(self.settings_file, settings_module.dump(settings))

    def endpoints(self) -> Endpoints | None:
        """None unless the service is ready."""
        try:
            return Endpoints(**json.loads(self.endpoints_file.read_text()))
        except FileNotFoundError:
            return None

    def write_endpoints(self, endpoints: Endpoints) -> None:
        write_private(self.endpoints_file, json.dumps(asdict(endpoints), indent=2) + "\n")

    def admin_token(self, settings: Settings) -> str:
        """The configured token, or the one in `admin.token`, which is made if it is missing."""
        configured = settings.api.admin_token.get_secret_value()
        if configured:
            return configured
        try:
            token = self.token_file.read_text().strip()
        except FileNotFoundError:
            token = ""
        if not token:
            token = secrets.token_urlsafe(32)
            write_private(self.token_file, token + "\n")
        return token

    def demo(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.demo_file.read_text())
        except FileNotFoundError:
            return None
        return found

    def write_demo(self, values: dict[str, Any]) -> None:
        write_private(self.demo_file, json.dumps(values, indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replaces a file in one step; only its owner may read it."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from None


def _try_lock(fd: int, mode: int) -> bool:
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
