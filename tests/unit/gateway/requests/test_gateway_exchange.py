"""How an exchange ends, and what becomes of the change that it was amid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.core.errors import Unavailable
from tidegate.gateway.changes.change import Change
from tidegate.gateway.changes.intents import Intents
from tidegate.gateway.changes.key_locks import KeyLocks
from tidegate.gateway.requests.exchange import Exchange

BUCKET, KEY = "p-bucket", "k"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Any]:
    """The parts of a gateway that an exchange and its change need."""
    made = SimpleNamespace(
        key_locks=KeyLocks(tmp_path / "order"),
        intents=Intents(tmp_path / "intents"),
        patience_seconds=30.0,
        next_request_id=lambda: "id",
        exchange_ended=lambda exchange: None,
        own_reply=lambda *given: b"",
    )
    yield made
    made.key_locks.close()
    made.intents.close()


def exchange_of(parts: Any) -> Exchange:
    parts.loop = asyncio.get_running_loop()
    client = SimpleNamespace(
        peer="", keeps_alive=True, write=lambda data: None, exchange_ended=lambda: None, discard_body=lambda *how: None
    )
    head = SimpleNamespace(method=b"PUT", path=b"/", headers={}, chunked=False, content_length=0)
    exchange = Exchange(parts, client, head)  # type: ignore[arg-type]
    pool = SimpleNamespace(pool=SimpleNamespace(name="p"))
    exchange.admission = SimpleNamespace(bucket_name=BUCKET, pool=pool)  # type: ignore[assignment]
    return exchange


def is_locked(parts: Any) -> bool:
    other = Change(parts, BUCKET)
    try:
        return not other.try_lock(KEY)
    finally:
        other.end()


def amid_a_change(parts: Any, then: Callable[[Exchange, asyncio.Event], Awaitable[None]]) -> None:
    async def main() -> None:
        exchange, go_on = exchange_of(parts), asyncio.Event()

        async def work() -> None:
            await exchange.change.lock([KEY])
            await go_on.wait()

        exchange.spawn(work())
        await asyncio.sleep(0.01)
        await then(exchange, go_on)

    asyncio.run(main())


def test_a_task_keeps_its_keys_when_its_time_is_over(parts: Any) -> None:
    async def then(exchange: Exchange, go_on: asyncio.Event) -> None:
        exchange.timed_out()
        assert exchange.finished and exchange.status == 503
        assert is_locked(parts), "what the task does now must not undo what another request is told of"
        go_on.set()
        await asyncio.sleep(0.01)
        assert not is_locked(parts)

    amid_a_change(parts, then)


def test_a_task_that_hangs_loses_its_keys_in_the_end(parts: Any) -> None:
    parts.patience_seconds = 0.05

    async def then(exchange: Exchange, go_on: asyncio.Event) -> None:
        exchange.timed_out()
        assert is_locked(parts)
        await asyncio.sleep(0.1)
        assert not is_locked(parts)

    amid_a_change(parts, then)


def test_no_change_begins_after_the_end(parts: Any) -> None:
    async def main() -> None:
        exchange = exchange_of(parts)
        exchange.timed_out()
        with pytest.raises(Unavailable, match="ended"):
            _ = exchange.change

    asyncio.run(main())
