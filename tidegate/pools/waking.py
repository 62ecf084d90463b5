"""Waking a pool: starting its manager and hearing from it where the backend listens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tidegate.core.errors import Unavailable
from tidegate.settings import Settings

# A manager answers within `start_seconds`; this is for its own start and for what it does before.
_MARGIN_SECONDS = 10.0
_LONGEST_LINE = 16384

_wakes: dict[tuple[asyncio.AbstractEventLoop, Path, str], asyncio.Future[str]] = {}


class NotWoken(Unavailable):
    """The pool has no backend now; it may be tried again after `retry_after` seconds."""

    def __init__(self, why: str, retry_after: float) -> None:
        super().__init__(why)
        self.retry_after = retry_after


async def wake(data: Path, pool: str, settings: Settings) -> str:
    """HOST:PORT of the pool's backend, which is started if need be. Callers at the same time share one start."""
    loop = asyncio.get_running_loop()
    key = (loop, data, pool)
    task = _wakes.get(key)
    if task is None:
        task = _in_thread(loop, lambda: start_pool(data, pool, settings))
        _wakes[key] = task
        task.add_done_callback(lambda _: _wakes.pop(key, None))
    return await asyncio.shield(task)  # a caller that goes away takes nothing from the others


def _in_thread(loop: asyncio.AbstractEventLoop, work: Callable[[], str]) -> asyncio.Future[str]:
    """A thread of its own for each pool: those that start slowly must not hold up the others, nor the process's end."""
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
    """HOST:PORT of the pool's backend, which is started if need be. Raises `NotWoken`."""
    command = [sys.executable, "-m", "tidegate.pools.manager", "--data", str(data), "--pool", pool]
    try:
        manager = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise NotWoken(f"no manager can be started: {error.strerror}", settings.pools.retry_seconds) from None
    threading.Thread(target=manager.wait, name=f"reaper of {pool}", daemon=True).start()
    assert manager.stdout is not None
    with manager.stdout as stdout:
        line = _read_line(stdout.fileno(), settings.pools.start_seconds + _MARGIN_SECONDS)
    return _endpoint(line, pool, settings)


def _read_line(fd: int, seconds: float) -> bytes:
    """Up to the first newline, the end of the stream or of the time."""
    os.set_blocking(fd, False)
    collected = b""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while b"\n" not in collected and len(collected) < _LONGEST_LINE:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                break
            piece = os.read(fd, _LONGEST_LINE)
            if not piece:
                break
            collected += piece
    return collected.partition(b"\n")[0]


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
