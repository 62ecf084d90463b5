"""The order of changes: one at a time per key over all processes, and times that strictly rise."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.changes.key_locks import LOCKS, KeyLocks, lock_number


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "order"


@pytest.fixture
def order(file: Path) -> Iterator[KeyLocks]:
    opened = KeyLocks(file)
    yield opened
    opened.close()


@pytest.fixture
def other(file: Path) -> Iterator[KeyLocks]:
    """What another process has: a lock belongs to the opening of the file."""
    opened = KeyLocks(file)
    yield opened
    opened.close()


def test_a_lock_is_stable_and_within_bounds() -> None:
    assert lock_number("b", "k") == lock_number("b", "k")
    assert all(0 <= lock_number("b", f"key {number}") < LOCKS for number in range(1000))
    assert lock_number("b", "a:b\n/\U0001f600") != lock_number("b", "a:b\n/\U0001f601")


def test_a_lock_has_one_holder_over_all_processes(order: KeyLocks, other: KeyLocks) -> None:
    assert order.try_acquire(7)
    assert not order.try_acquire(7)
    assert not other.try_acquire(7)
    assert other.try_acquire(8)
    order.release(7)
    assert other.try_acquire(7)


def test_every_lock_is_held_for_itself(order: KeyLocks, other: KeyLocks) -> None:
    """Also where the locks of several lie in one file."""
    numbers = [first + far * 64 for first in (0, 1, 63) for far in (0, 1, 2, LOCKS // 64 - 1)]
    assert all(order.try_acquire(number) for number in numbers[::2])
    assert [other.try_acquire(number) for number in numbers] == [False, True] * (len(numbers) // 2)
    order.release_all(numbers[::2])
    assert all(other.try_acquire(number) for number in numbers[::2])


def test_waiters_of_one_process_come_in_their_order_before_newcomers(order: KeyLocks) -> None:
    async def main() -> list[int]:
        came: list[int] = []

        async def waiter(number: int) -> None:
            await order.acquire(3)
            came.append(number)
            await asyncio.sleep(0)
            order.release(3)

        assert order.try_acquire(3)
        tasks = [asyncio.create_task(waiter(number)) for number in range(5)]
        await asyncio.sleep(0)
        order.release(3)
        assert not order.try_acquire(3), "a newcomer got in before those who wait"
        await asyncio.gather(*tasks)
        assert order.try_acquire(3)
        return came

    assert uvloop.run(main()) == [0, 1, 2, 3, 4]


def test_a_waiter_gets_the_lock_when_another_process_gives_it_back(order: KeyLocks, other: KeyLocks) -> None:
    async def main() -> None:
        assert other.try_acquire(3)
        waiting = [asyncio.create_task(order.acquire(3)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in waiting)
        other.release(3)
        await waiting[0]
        assert not waiting[1].done() and not other.try_acquire(3)
        order.release(3)
        await waiting[1]
        order.release(3)
        assert other.try_acquire(3)

    uvloop.run(main())


@pytest.mark.parametrize("gone", [0, 1, 2])
@pytest.mark.parametrize("holder", ["this process", "another"])
def test_a_cancelled_waiter_in_any_place_keeps_nobody_from_the_lock(
    order: KeyLocks, other: KeyLocks, holder: str, gone: int
) -> None:
    async def main() -> None:
        holding = order if holder == "this process" else other
        assert holding.try_acquire(3)
        waiting = [asyncio.create_task(order.acquire(3)) for _ in range(3)]
        await asyncio.sleep(0.005)
        waiting[gone].cancel()
        await asyncio.sleep(0)
        holding.release(3)
        for place, task in enumerate(waiting):
            if place != gone:
                await task
                order.release(3)
        assert other.try_acquire(3)

    uvloop.run(main())


@pytest.mark.parametrize("successors", [0, 1])
def test_a_waiter_cancelled_in_the_moment_of_its_turn_hands_it_on(
    order: KeyLocks, other: KeyLocks, successors: int
) -> None:
    async def main() -> None:
        assert order.try_acquire(3)
        first = asyncio.create_task(order.acquire(3))
        others = [asyncio.create_task(order.acquire(3)) for _ in range(successors)]
        await asyncio.sleep(0)
        order.release(3)  # the lock is given, the task has not run yet
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        for task in others:
            await task
            order.release(3)
        assert other.try_acquire(3)

    uvloop.run(main())


def test_several_locks_are_taken_together_or_not_at_all(order: KeyLocks, other: KeyLocks) -> None:
    async def main() -> None:
        assert other.try_acquire(5)
        task = asyncio.create_task(order.acquire_all([9, 5, 1, 5]))
        await asyncio.sleep(0.005)
        assert not other.try_acquire(1), "the first is held while the next is waited for"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert other.try_acquire(1)
        other.release_all([1, 5])
        assert await order.acquire_all([9, 5, 1, 5]) == [1, 5, 9]
        order.release_all([1, 5, 9])
        assert all(other.try_acquire(number) for number in (1, 5, 9))

    uvloop.run(main())


def test_crossing_sets_of_locks_never_wait_for_each_other(order: KeyLocks, other: KeyLocks) -> None:
    async def changes(mine: KeyLocks, numbers: list[int]) -> None:
        for _ in range(50):
            held = await mine.acquire_all(numbers)
            await asyncio.sleep(0)
            mine.release_all(held)

    async def main() -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(
                changes(order, [1, 2, 3]), changes(other, [3, 2, 1]), changes(order, [2, 1]), changes(other, [3, 1])
            )

    uvloop.run(main())


HOLDER = """
import sys, time
from pathlib import Path
from tidegate.gateway.changes.key_locks import KeyLocks
order = KeyLocks(Path(sys.argv[1]))
assert order.try_acquire(3)
print(order.next_time(3, 5_000), flush=True)
time.sleep(60)
"""


def test_a_killed_process_frees_its_locks_and_its_times_are_remembered(file: Path, order: KeyLocks) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"5000\n"
        assert not order.try_acquire(3)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert order.try_acquire(3)
    assert order.next_time(3, 4_000) == 5_001


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_times_strictly_rise_whatever_the_clock_does(
    tmp_path_factory: pytest.TempPathFactory, clock: list[int]
) -> None:
    file = tmp_path_factory.mktemp("clock") / "order"
    given_out = []
    for place, now in enumerate(clock):
        if place % 3 == 0:  # a process that ends, and its successor
            order = KeyLocks(file)
        given_out.append(order.next_time(11, now))
        if place % 3 == 2 or place == len(clock) - 1:
            order.close()
    assert all(later > earlier for earlier, later in pairwise(given_out))
    assert given_out[0] == max(clock[0], 1)


def test_a_time_is_the_clocks_unless_that_would_go_back(order: KeyLocks) -> None:
    assert order.next_time(3, 1000) == 1000
    assert order.next_time(3, 2000) == 2000
    assert order.next_time(3, 1500) == 2001
    assert order.next_time(4, 1500) == 1500, "another key has times of its own"


def test_only_the_service_can_read_the_files(file: Path, order: KeyLocks) -> None:
    locks = file.with_name("order.locks")
    assert locks.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in (file, *locks.iterdir())} == {0o600}
