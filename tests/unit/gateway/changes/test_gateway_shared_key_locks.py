"""Turns over several machines: each has an order file of its own, and all meet in a real Redis."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "scripts"))

import servers

from tidegate.adapters.redis_tables import RedisTables
from tidegate.core.errors import Unavailable
from tidegate.gateway.changes import shared_key_locks
from tidegate.gateway.changes.shared_key_locks import SharedKeyLocks

NUMBER = 7
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


class Machines:
    """Gateways on machines of their own, and the tables that they share."""

    def __init__(self, directory: Path, address: str) -> None:
        self.directory = directory
        self.address = address
        self.namespace = uuid.uuid4().hex
        self.tables = self.open_tables()
        self._opened: list[SharedKeyLocks] = []
        self._tables = [self.tables]

    def open_tables(self) -> RedisTables:
        return RedisTables(f"redis://{self.address}/0", namespace=self.namespace)

    def add(self) -> SharedKeyLocks:
        self._tables.append(self.open_tables())
        self._opened.append(SharedKeyLocks(self.directory / f"order-{len(self._opened)}", self._tables[-1]))
        return self._opened[-1]

    def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """In an event loop, at the end of which every lock has been given back."""

        async def main() -> None:
            await work()
            for order in self._opened:
                await order.all_released()

        uvloop.run(main())

    def holder(self) -> str | None:
        return self.tables.get(f"or:{NUMBER}")

    def close(self) -> None:
        for order in self._opened:
            order.close()
        for tables in self._tables:
            tables.close()


@pytest.fixture
def machines(redis: servers.Server, tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path, redis.address)
    yield made
    made.close()


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(shared_key_locks, "LEASE_SECONDS", 3.0)
    monkeypatch.setattr(shared_key_locks, "_RENEW_SECONDS", 0.5)
    return 3.0


def test_a_key_is_changed_by_one_gateway_at_a_time_over_all_machines(machines: Machines) -> None:
    orders = [machines.add(), machines.add(), machines.add()]
    inside = 0
    most = 0
    times = []

    async def change(number: int) -> None:
        nonlocal inside, most
        order = orders[number % 3]
        await order.acquire(NUMBER)
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.002)
        times.append(order.next_time(NUMBER, time.time_ns()))
        inside -= 1
        order.release(NUMBER)

    async def work() -> None:
        await asyncio.gather(*[change(number) for number in range(30)])

    machines.run(work)
    assert most == 1
    assert len(times) == 30 and all(earlier < later for earlier, later in pairwise(times))
    assert machines.holder() is None


def test_another_key_does_not_wait(machines: Machines) -> None:
    one, other = machines.add(), machines.add()

    async def work() -> None:
        await one.acquire(NUMBER)
        await asyncio.wait_for(other.acquire(NUMBER + 1), 30)
        one.release(NUMBER)
        other.release(NUMBER + 1)

    machines.run(work)


def test_times_rise_though_the_clocks_differ(machines: Machines) -> None:
    ahead, behind = machines.add(), machines.add()
    now = 1_000_000 * SECOND
    given = []

    async def change(order: SharedKeyLocks, clock: int) -> None:
        await order.acquire(NUMBER)
        given.extend(order.next_time(NUMBER, clock) for _ in range(2))
        order.release(NUMBER)

    async def work() -> None:
        for number in range(4):
            await change(ahead, now + 3600 * SECOND + number)
            await change(behind, now + number)

    machines.run(work)
    assert all(earlier < later for earlier, later in pairwise(given)), given


def test_a_gateway_that_begins_anew_goes_on_after_the_last_time(machines: Machines) -> None:
    far_ahead = 5_000_000_000 * SECOND
    first = machines.add()
    given = []

    async def change(order: SharedKeyLocks, clock: int) -> None:
        await order.acquire(NUMBER)
        given.append(order.next_time(NUMBER, clock))
        order.release(NUMBER)

    machines.run(lambda: change(first, far_ahead))
    fresh = machines.add()
    machines.run(lambda: change(fresh, time.time_ns()))
    assert given == [far_ahead, far_ahead + 1]


HOLDER = """
import sys, time, uvloop
from pathlib import Path
from tidegate.adapters.redis_tables import RedisTables
from tidegate.gateway.changes import shared_key_locks
shared_key_locks.LEASE_SECONDS, shared_key_locks._RENEW_SECONDS = 3.0, 0.5
async def main():
    tables = RedisTables(f"redis://{sys.argv[1]}/0", namespace=sys.argv[2])
    order = shared_key_locks.SharedKeyLocks(Path(sys.argv[3]), tables)
    await order.acquire(7)
    print("held", flush=True)
    await shared_key_locks.asyncio.sleep(60)
uvloop.run(main())
"""


def test_a_killed_holders_turn_comes_back_and_not_before_it_is_killed(machines: Machines, short_lease: float) -> None:
    order = machines.add()
    arguments = [machines.address, machines.namespace, str(machines.directory / "elsewhere")]
    with subprocess.Popen([sys.executable, "-c", HOLDER, *arguments], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == b"held\n"

            async def work() -> None:
                waiting = asyncio.create_task(order.acquire(NUMBER))
                await asyncio.sleep(1.5 * short_lease)
                assert not waiting.done(), "the holder lives and renews its entry"
                holder.send_signal(signal.SIGKILL)
                await asyncio.wait_for(waiting, 10 * short_lease)
                order.release(NUMBER)

            machines.run(work)
        finally:
            holder.kill()


def test_a_turn_is_kept_for_as_long_as_a_change_takes(machines: Machines, short_lease: float) -> None:
    slow, other = machines.add(), machines.add()

    async def work() -> None:
        await slow.acquire(NUMBER)
        mine = machines.holder()
        waiting = asyncio.create_task(other.acquire(NUMBER))
        await asyncio.sleep(1.5 * short_lease)
        assert machines.holder() == mine and not waiting.done()
        slow.release(NUMBER)
        await asyncio.wait_for(waiting, 30)
        other.release(NUMBER)

    machines.run(work)


def test_who_stops_waiting_leaves_nothing_held(machines: Machines) -> None:
    one, other = machines.add(), machines.add()

    async def give_up(order: SharedKeyLocks, after: float) -> None:
        waiting = asyncio.create_task(order.acquire(NUMBER))
        await asyncio.sleep(after)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    async def work() -> None:
        await give_up(one, 0)  # while it is on its way to the tables
        await asyncio.wait_for(other.acquire(NUMBER), 30)
        await give_up(one, 0.05)  # while another machine has the lock
        other.release(NUMBER)
        await asyncio.wait_for(one.acquire(NUMBER), 30)
        one.release(NUMBER)

    machines.run(work)
    assert machines.holder() is None


def test_who_was_overtaken_sets_no_time_back(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a machine that stood still for longer than its entry lived."""
    monkeypatch.setattr(shared_key_locks, "LEASE_SECONDS", 0.3)
    stopped, other = machines.add(), machines.add()
    early, late = 1_000 * SECOND, 2_000 * SECOND

    async def work() -> None:
        await stopped.acquire(NUMBER)
        assert stopped.next_time(NUMBER, early) == early
        await asyncio.wait_for(other.acquire(NUMBER), 30)
        assert other.next_time(NUMBER, late) == late
        other.release(NUMBER)
        await other.all_released()
        stopped.release(NUMBER)
        await stopped.all_released()
        await other.acquire(NUMBER)
        assert other.next_time(NUMBER, early) > late
        other.release(NUMBER)

    machines.run(work)


def test_without_redis_no_turn_is_had_and_none_is_left_behind(tmp_path: Path) -> None:
    directory = tmp_path / "own-redis"
    directory.mkdir()
    with servers.redis_server(directory) as server:
        machines = Machines(tmp_path, server.address)
        order = machines.add()

        async def work() -> None:
            await order.acquire(NUMBER)
            server.stop()
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await order.acquire(NUMBER + 1)
            order.release(NUMBER)
            await order.all_released()
            with pytest.raises(Unavailable):
                await asyncio.wait_for(order.acquire(NUMBER), 30)

        machines.run(work)
        machines.close()


def test_an_answer_that_got_lost_does_not_lock_its_asker_out(machines: Machines) -> None:
    """The entry was set, and who asked for it was told that Redis cannot be reached."""
    order = machines.add()

    async def work() -> None:
        await order.acquire(NUMBER)
        token = machines.holder()
        order.release(NUMBER)
        await order.all_released()
        assert token is not None
        machines.tables.put(f"or:{NUMBER}", token, expires_in=60)
        await asyncio.wait_for(order.acquire(NUMBER), 30)
        order.release(NUMBER)

    machines.run(work)
    assert machines.holder() is None
