"""Waking from an event loop, as gateways do."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from pool_world import World, backends_in

from tidegate.core.errors import Unavailable
from tidegate.pools.waking import wake


def children() -> set[str]:
    """Processes that this one started and that are running or not yet reaped."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def test_callers_in_one_process_share_a_start_and_one_that_goes_away_harms_no_other(world: World) -> None:
    world.create("demo")

    async def all_at_once() -> list[str]:
        calls = [asyncio.create_task(wake(world.data, "demo", world.settings)) for _ in range(20)]
        await asyncio.sleep(0.2)
        calls[0].cancel()
        return await asyncio.gather(*calls[1:])

    assert set(asyncio.run(all_at_once())) == {world.tables.get("ep:demo")}
    assert backends_in(world.registry.pool("demo").directory) == [world.backend("demo").pid]


def test_a_refusal_reaches_every_caller_with_the_time_to_wait_and_leaves_no_zombie(world: World) -> None:
    world.create("demo")
    world.registry.update_pool("demo", online=False)
    before = children()

    async def all_at_once() -> list[str | BaseException]:
        calls = [wake(world.data, "demo", world.settings) for _ in range(3)]
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = asyncio.run(all_at_once())
    for outcome in outcomes:
        assert isinstance(outcome, Unavailable)
        assert getattr(outcome, "retry_after", 0) > 0
    deadline = time.monotonic() + 90
    while children() - before:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_without_settings_the_manager_says_so(world: World) -> None:
    world.create("demo")
    (world.data / "run" / "settings.json").unlink()
    with pytest.raises(Unavailable, match=r"settings\.json"):
        world.wake("demo")
