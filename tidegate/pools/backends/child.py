"""A backend's process: started as the pool's owner, bound to its manager, ended as a group."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.pools.backends import confined_exec
from tidegate.pools.backends.base import Launch, StartFailed
from tidegate.pools.owners import Account, environment_of

_LARGEST_LOG_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 4096
_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Server:
    """What is executed, and what it is to find in the pool's directory, in which it runs: directories that are made
    anew, directories that are kept, and files with their text."""

    program: Path
    arguments: Sequence[str]
    environment: dict[str, str]
    descriptors: Sequence[int]
    fresh: Sequence[str] = ()
    kept: Sequence[str] = ()
    files: dict[str, str] = field(default_factory=dict)


def start_child(launch: Launch, server: Server, *, namespaces: bool) -> subprocess.Popen[bytes]:
    """Returns when the server was executed, as the pool's owner and with a clean environment. Raises `StartFailed`."""
    specification = _specification(launch.account, str(launch.directory), namespaces=namespaces) | {
        "program": str(server.program),
        "arguments": list(server.arguments),
        "fresh": list(server.fresh),
        "kept": list(server.kept),
        "files": server.files,
    }
    environment = environment_of(launch.account) | server.environment
    log = _open_log(launch.log_file)
    try:
        process, report = _start(specification, environment, log, server.descriptors)
    finally:
        os.close(log)
    try:
        while not select.select([report], [], [], 0)[0]:
            launch.pause(_POLL_SECONDS)
        line = os.read(report, select.PIPE_BUF)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        os.close(report)
    if line:
        process.wait()
        answer = json.loads(line)
        raise StartFailed(answer["why"], definite=answer["definite"])
    return process


def namespace_problem(account: Account | None) -> str:
    """Why a process of that account, or else of this user, gets no namespaces of its own; "" when it does. Tries it."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        process, report = _start(_specification(account, "/", namespaces=True), {}, nowhere, ())
    finally:
        os.close(nowhere)
    try:
        line = os.read(report, select.PIPE_BUF)
    finally:
        os.close(report)
        process.wait()
    return str(json.loads(line)["why"]) if line else ""


def _specification(account: Account | None, directory: str, *, namespaces: bool) -> dict[str, Any]:
    """Without an account the process keeps this one's identity."""
    identity = None
    if account is not None and not account.is_current:
        identity = {"uid": account.uid, "gid": account.gid, "groups": list(account.groups)}
    return {
        "account": identity,
        "user": account.user if account is not None else "",
        "directory": directory,
        "namespaces": namespaces,
        "parent": os.getpid(),
        "fresh": [],
        "kept": [],
        "files": {},
    }


def _start(
    specification: dict[str, Any], environment: dict[str, str], log: int, descriptors: Sequence[int]
) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and the descriptor from which its report can be read."""
    report, theirs = os.pipe2(os.O_CLOEXEC)
    text = json.dumps(specification | {"report": theirs})
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", confined_exec.__file__, text],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(*descriptors, theirs),
            start_new_session=True,
        )
    except OSError as error:
        os.close(report)
        raise StartFailed(f"the backend's process cannot be started: {error.strerror}") from None
    finally:
        os.close(theirs)
    return process, report


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
