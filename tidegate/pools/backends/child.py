"""A backend's process: started as the pool's owner, bound to its manager, ended as a group."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tidegate.pools.backends.base import Launch, StartFailed
from tidegate.pools.owners import environment_of

_PR_SET_PDEATHSIG = 1
_LARGEST_LOG_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 4096

# Loaded here: between fork and exec it would be too late.
_libc = ctypes.CDLL(None, use_errno=True)


def start_child(
    launch: Launch, command: Sequence[str], *, environment: dict[str, str], pass_fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    """Runs `command` in the pool's directory, as its owner, with a clean environment and `environment` added."""
    account = launch.account
    identity: dict[str, object] = {}
    if not account.is_current:
        identity = {"user": account.uid, "group": account.gid, "extra_groups": list(account.groups)}
    log = _open_log(launch.log_file)
    try:
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            command,
            cwd=launch.directory,
            env=environment_of(account) | environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=pass_fds,
            umask=0o077,
            start_new_session=True,
            preexec_fn=_bound_to(os.getpid()),
            **identity,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise StartFailed(f"{account.user} cannot use {error.filename}: {error.strerror}", definite=True) from None
    except OSError as error:
        raise StartFailed(f"the backend's process cannot be started: {error.strerror}") from None
    finally:
        os.close(log)


def end_child(process: subprocess.Popen[bytes], seconds: float, closed: Callable[[], bool]) -> None:
    """SIGTERM, time until `closed` says that nothing is left to be done, then SIGKILL to the whole group."""
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        _signal_group(process.pid, signal.SIGCONT)  # one that was stopped would never see the other
        _wait_closed(process, seconds, closed)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def log_size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def log_tail(file: Path, since: int) -> str:
    """The last lines of the backend's log that were written after it had the size `since`."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(since if since <= size else 0, size - _TAIL_BYTES))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _bound_to(manager: int) -> Callable[[], None]:
    def prepare() -> None:
        # After the change of user, which would clear it.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the manager's mask is not the backend's
        if os.getppid() != manager:  # it died before the first line
            os._exit(1)

    return prepare


def _open_log(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > _LARGEST_LOG_BYTES:
            file.replace(file.with_name(file.name + ".1"))
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartFailed(f"the log file {file} cannot be written: {error.strerror}") from None


def _wait_closed(process: subprocess.Popen[bytes], seconds: float, closed: Callable[[], bool]) -> None:
    step = 0.02
    waited = 0.0
    while waited < seconds:
        try:
            process.wait(step)
            return
        except subprocess.TimeoutExpired:
            if closed():
                return
        waited += step
        step = min(step * 1.5, 0.2)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return  # gone, or only a zombie of another user is left
