"""The data directory: its layout, its lock, and its small files, which are private and replaced in one step.

Others may pass through it and through `pools` and `run`, on their way to a pool of theirs, and read nothing.

| path                 | what                                                       |
| -------------------- | ---------------------------------------------------------- |
| `run/lock`           | held by the supervisor, with its pid                       |
| `run/settings.json`  | the settings in force, secrets included                    |
| `run/endpoints.json` | addresses, admin token and pid, present while ready        |
| `run/metrics/`       | the processes' metrics                                     |
| `run/starter.sock`   | where managers are asked for, if root started the service  |
| `log/`, `pools/`     | logs; the default place of pools                           |
| `admin.token`        | the API's token, made at first start                       |
| `demo.json`          | key and secret of the pool `demo`, if `up --demo` made one |
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidegate import settings as settings_module
from tidegate.core.errors import Conflict, InvalidInput, Unavailable
from tidegate.settings import Settings

# For directories that others pass through: they read nothing there.
OPEN_MODE = 0o711
POOLS = "pools"

_DIRECTORIES = ("run", "log", POOLS, "topics", "spark", "log-table", "passes")
_FILES = ("tables.db", "secret.key", "admin.token", "demo.json")
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
        self.pools = self.path / POOLS
        self.metrics = self.run / "metrics"
        self.settings_file = self.run / "settings.json"
        self.endpoints_file = self.run / "endpoints.json"
        self.lock_file = self.run / "lock"
        self.starter_socket = self.run / "starter.sock"
        self.token_file = self.path / "admin.token"
        self.demo_file = self.path / "demo.json"

    def prepare(self) -> None:
        """Makes what is missing and closes what is open. Owners of pools pass through to their own."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for directory in (self.run, self.metrics, self.log, self.pools):
                directory.mkdir(exist_ok=True)
            self.run.chmod(OPEN_MODE)
            self.pools.chmod(OPEN_MODE)
            # Owners other than the one who runs the service exist only where root started it.
            _limit(self.path, OPEN_MODE, open_to=OPEN_MODE if os.getuid() == 0 else 0)
            own = [path for path in self.path.iterdir() if is_own_name(path.name)]
            own.append(self.path / settings_module.FILE_NAME)  # it may hold secrets
            for path in (*own, *(path for path in self.run.iterdir() if not path.is_dir()), self.metrics):
                if path not in (self.run, self.pools):
                    _limit(path, 0o700)
        except OSError as error:
            raise InvalidInput(f"the data directory {self.path} cannot be used: {error.strerror}") from None

    def acquire(self) -> int:
        """Locks the directory for this process. Closing the returned descriptor unlocks it."""
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


def is_own_name(name: str) -> bool:
    """Whether Tidegate makes an entry of that name in its data directory, temporary and companion files included."""
    return name in _DIRECTORIES or name.lstrip(".").startswith(_FILES)


def _limit(path: Path, most: int, *, open_to: int = 0) -> None:
    """Takes away the rights that are not in `most`, and gives those in `open_to`."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return  # a temporary file of another process
    mode = stat.S_IMODE(found.st_mode) & most | open_to
    if mode != stat.S_IMODE(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode):
        path.chmod(mode)


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


def sync_directory(directory: Path) -> None:
    """Puts the names in it on stable storage."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _try_lock(fd: int, mode: int) -> bool:
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
