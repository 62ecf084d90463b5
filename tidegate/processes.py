"""Processes on this machine: how children are bound to their parent, found, told to end and made to end."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tidegate.service_account import Identity

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0
_SOUND_SECONDS = 30.0
_ROOTS_OWN = ("MAIL", "SHELL", "USERNAME", "XDG_RUNTIME_DIR")

_libc = ctypes.CDLL(None, use_errno=True)
log = logging.getLogger(__name__)


def adopt_orphans() -> None:
    """Makes this process the parent of every orphan below it."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def keep_files_private() -> None:
    """Keeps files that this process and its children make from all other users."""
    os.umask(0o077)


def environment_for(account: Identity, data: Path) -> dict[str, str]:
    """Returns this process's environment without root's values. The account's home is the data directory."""
    kept = {name: value for name, value in os.environ.items() if name not in _ROOTS_OWN}
    return kept | {"HOME": str(data), "LOGNAME": account.user, "USER": account.user}


def end_with_parent(parent: int) -> Callable[[], None]:
    """For `preexec_fn`: the new process gets SIGTERM when the process `parent`, which starts it, dies."""

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return prepare


class Child:
    """One process that is to run all the time: a module started with `python -m`, restarted when it dies.

    The pause before a restart doubles while the process keeps dying young.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        fds: Collection[int],
        become: Callable[[], None] = lambda: None,
    ) -> None:
        """`become` is called in the new process, to make it the user that it is to be."""
        self.name = name
        self._become = become
        self._command = [sys.executable, "-m", module, *arguments]
        self._fds = tuple(fds)
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._pause = 0.0
        self.restart_at = 0.0
        self.early_deaths = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self, environment: dict[str, str]) -> None:
        """Starts the process. A start that the machine refuses counts as an early death."""
        self._started_at = time.monotonic()
        try:
            # preexec_fn is safe here: the supervisor has one thread.
            self._process = subprocess.Popen(
                self._command,
                pass_fds=self._fds,
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=self._prepare(os.getpid()),
            )
        except (OSError, subprocess.SubprocessError) as error:
            self._put_off()
            log.error("%s cannot be started: %s; it is tried again in %.1f s", self.name, error, self._pause)

    def _prepare(self, parent: int) -> Callable[[], None]:
        bind = end_with_parent(parent)

        def prepare() -> None:
            self._become()
            bind()  # after the change of user, which would undo it

        return prepare

    def ended(self, status: int) -> None:
        """Notes that the process was reaped, and when the next one may start."""
        if self._process is None:
            return
        self._process.returncode = os.waitstatus_to_exitcode(status)
        lived = time.monotonic() - self._started_at
        if lived >= _SOUND_SECONDS:
            self._pause, self.early_deaths = 0.0, 0
        log.warning(
            "%s (pid %d) ended with %s after %.1f s; it is started again in %.1f s",
            self.name, self._process.pid, describe_exit(self._process.returncode), lived, self._pause,
        )  # fmt: skip
        self._put_off()
        self._process = None

    def _put_off(self) -> None:
        self.early_deaths += 1
        self.restart_at = time.monotonic() + self._pause
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)

    def forget(self, status: int) -> None:
        """Notes that the process was reaped while the service stops."""
        if self._process is not None:
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._process = None

    def signal(self, number: int) -> None:
        if self._process is not None:
            send(self._process.pid, number)


def describe_exit(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def send(pid: int, number: int) -> None:
    """Signals a process that may have gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        found.extend(int(text) for text in _read(file).split())
    return found


def descendants_of(pid: int) -> list[int]:
    found = children_of(pid)
    for child in found:
        found.extend(children_of(child))
    return found


def pool_managers(data: Path) -> list[int]:
    """The manager processes on this machine that serve the data directory, whoever started them."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _serves(_read(entry / "cmdline").split(b"\0"), os.fsencode(data))
    ]


def _serves(command: list[bytes], data: bytes) -> bool:
    if b"tidegate.pools.manager" not in command or b"--data" not in command[:-1]:
        return False
    return command[command.index(b"--data") + 1] == data


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the process went away, or is not ours to see
        return b""
