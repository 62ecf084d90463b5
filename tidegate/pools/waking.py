"""Waking a pool: starting its manager and hearing from it where the backend listens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tidegate.core.errors import Unavailable
from tidegate.pools import starter_client
from tidegate.service_account import started_by_root
from tidegate.settings import Settings

# A manager answers within `start_seconds`; this is for its own start and for what it does before.
_MARGIN_SECONDS = 10.0

_wakes: dict[tuple[asyncio.AbstractEventLoop, Path, str], asyncio.Future[str]] = {}


class NotWoken(Unavailable):
    """The pool has no backend now; it may be tried again after `retry_after` seconds."""

    def __init__(self, why: str, retry_after: float) -> None:
        super().__init__(why)
        self.retry_after = retry_after


async def wake(data: Path, pool: str, settings: Settings) -> str:
    """Returns the address of the pool's backend, and starts one if none runs. Simultaneous callers share one start."""
    loop = asyncio.get_running_loop()
    key = (loop, data, pool)
    task = _wakes.get(key)
    if task is None:
        task = _in_thread(loop, lambda: start_pool(data, pool, settings))
        _wakes[key] = task
        task.add_done_callback(lambda _: _wakes.pop(key, None))
    return await asyncio.shield(task)  # a caller that goes away takes nothing from the others


def _in_thread(loop: asyncio.AbstractEventLoop, work: Callable[[], str]) -> asyncio.Future[str]:
    """Starts a pool in a thread of its own, so that a slow start holds up neither other pools nor the process's end."""
    future: asyncio.Future[str] = loop.create_future()

    def settle(result: str | None, error: Exception | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
            future.exception()  # seen, also when every caller has gone
        else:
            future.set_result(result or "")

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="wake", daemon=True).start()
    return future


def start_pool(data: Path, pool: str, settings: Settings) -> str:
    """Returns the address of the pool's backend, and starts one if none runs. Raises `NotWoken`."""
    seconds = settings.pools.start_seconds + _MARGIN_SECONDS
    line = starter_client.ask(data, {"start": pool}, seconds)
    if line is None:
        line = _start_directly(data, pool, settings, seconds)
    return _endpoint(line, pool, settings)


def manager_command(data: Path, pool: str, settings: Settings) -> list[str]:
    """What this user types to start a manager. For root it is a starter, which becomes the manager."""
    command = [sys.executable, "-m"]
    if started_by_root():
        request = json.dumps({"start": pool})
        command += ["tidegate.pools.starter", "--account", settings.service.account, "--request", request]
    else:
        command += ["tidegate.pools.manager", "--pool", pool]
    return [*command, "--data", str(data)]


def _start_directly(data: Path, pool: str, settings: Settings, seconds: float) -> bytes:
    """Where no starter listens: the manager is this user's, or root starts it as a starter would."""
    try:
        manager = subprocess.Popen(
            manager_command(data, pool, settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            user=0 if started_by_root() else None,  # also where root is in reserve
            group=0 if started_by_root() else None,
        )
    except OSError as error:
        raise NotWoken(f"no manager can be started: {error.strerror}", settings.pools.retry_seconds) from None
    threading.Thread(target=manager.wait, name=f"reaper of {pool}", daemon=True).start()
    assert manager.stdout is not None
    with manager.stdout as stdout:
        return starter_client.read_line(stdout.fileno(), seconds)


def _endpoint(line: bytes, pool: str, settings: Settings) -> str:
    try:
        answer = json.loads(line)
    except ValueError:
        raise NotWoken(
            f"the manager of pool {pool} gave no answer in time; the log says why", settings.pools.retry_seconds
        ) from None
    if "endpoint" in answer:
        return str(answer["endpoint"])
    raise NotWoken(f"pool {pool}: {answer.get('error')}", float(answer.get("retry_after") or 0))
