"""When a backend starts, and everything that stops it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pool_world import World, alive, backends_in, wait_until

from tidegate.core.errors import Unavailable
from tidegate.core.records import PoolState
from tidegate.pools.pool_lock import PoolLock
from tidegate.pools.waking import manager_command


def test_ten_wakes_at_once_start_one_backend(world: World) -> None:
    world.create("demo")
    with ThreadPoolExecutor(10) as threads:
        endpoints = set(threads.map(lambda _: world.wake("demo"), range(10)))
    assert endpoints == {world.tables.get("ep:demo")}
    assert backends_in(world.registry.pool("demo").directory) == [world.backend("demo").pid]
    assert world.registry.status("demo", time.time()).state == PoolState.READY
    assert world.wake("demo") in endpoints


def test_a_killed_manager_takes_its_backend_along_and_the_next_wake_starts_another(world: World) -> None:
    world.create("demo", "bucket")
    world.client("demo").put_object(Bucket="bucket", Key="key", Body=b"kept")
    manager, backend = world.pids("demo")
    os.kill(manager, signal.SIGKILL)
    wait_until(lambda: not alive(backend))
    s3 = world.client("demo")
    assert world.pids("demo") != (manager, backend)
    assert s3.get_object(Bucket="bucket", Key="key")["Body"].read() == b"kept"


def test_a_killed_backend_is_noticed_and_the_tables_cleared(world: World) -> None:
    world.create("demo", "bucket")
    world.client("demo").put_object(Bucket="bucket", Key="key", Body=b"kept")
    manager, backend = world.pids("demo")
    os.kill(backend, signal.SIGKILL)
    wait_until(lambda: world.sleeps("demo"))
    wait_until(lambda: not alive(manager))
    assert world.client("demo").get_object(Bucket="bucket", Key="key")["Body"].read() == b"kept"


def test_a_stopped_backend_fails_its_checks_and_is_removed(world: World) -> None:
    world.create("demo")
    world.wake("demo")
    manager, backend = world.pids("demo")
    os.kill(backend, signal.SIGSTOP)
    wait_until(lambda: world.sleeps("demo"))
    wait_until(lambda: not alive(manager) and not alive(backend))


def test_without_its_entry_a_manager_stops_and_never_two_backends_run(world: World) -> None:
    world.create("demo")
    world.wake("demo")
    directory = world.registry.pool("demo").directory
    old = world.pids("demo")
    world.tables.delete("ma:demo")
    world.tables.delete("ep:demo")
    seen: list[int] = []
    with ThreadPoolExecutor(1) as threads:
        waking = threads.submit(world.wake, "demo")
        while not waking.done():
            seen.append(len(backends_in(directory)))
            time.sleep(0.02)
        waking.result()
    assert max(seen) <= 1
    wait_until(lambda: not alive(old[0]) and not alive(old[1]))
    assert set(world.pids("demo")).isdisjoint(old)
    assert backends_in(directory) == [world.backend("demo").pid]


def test_a_manager_that_hangs_is_replaced_and_its_backend_with_it(make: Callable[..., World]) -> None:
    world = make("pools.stop_seconds=0.5")
    world.create("demo")
    world.wake("demo")
    manager, backend = world.pids("demo")
    os.kill(manager, signal.SIGSTOP)
    world.tables.delete("ma:demo")
    world.tables.delete("ep:demo")
    world.wake("demo")
    assert not alive(manager)
    assert not alive(backend)
    assert world.pids("demo") != (manager, backend)


def test_entries_that_somebody_removed_are_put_back(world: World) -> None:
    world.create("demo")
    endpoint = world.wake("demo")
    pids = world.pids("demo")
    world.tables.delete("ep:demo")
    assert world.wake("demo") == endpoint
    assert world.pids("demo") == pids


def test_an_idle_backend_is_stopped_but_not_while_it_is_used(make: Callable[..., World]) -> None:
    world = make("pools.idle_seconds=4")
    world.create("demo")
    world.wake("demo")
    backend = world.backend("demo").pid
    until = time.monotonic() + 9
    while time.monotonic() < until:
        world.tables.put("ts:demo", repr(time.time()))
        assert alive(backend)
        time.sleep(0.1)
    wait_until(lambda: world.sleeps("demo"))
    assert world.registry.status("demo", time.time()).state == PoolState.READY


def test_a_clock_that_jumps_does_not_make_a_used_backend_idle(make: Callable[..., World]) -> None:
    world = make("pools.idle_seconds=3")
    world.create("demo")
    world.wake("demo")
    backend = world.backend("demo").pid
    for jump in (-1e9, 1e9, -86400.0, 86400.0):
        for step in range(10):
            world.tables.put("ts:demo", repr(time.time() + jump + step))
            time.sleep(0.05)
    assert alive(backend)
    assert world.tables.get("ep:demo") is not None


def test_a_pool_that_is_wanted_while_it_is_about_to_stop_keeps_its_backend(make: Callable[..., World]) -> None:
    world = make("pools.idle_seconds=0.5", "gateway.access_seconds=20")
    world.create("demo")
    world.wake("demo")
    pids = world.pids("demo")
    wait_until(lambda: world.tables.get("ep:demo") is None)
    world.wake("demo")
    assert world.pids("demo") == pids


@pytest.mark.parametrize(
    ("disable", "enable", "reason"),
    [
        (
            lambda world: world.registry.update_pool("demo", online=False),
            lambda world: world.registry.update_pool("demo", online=True),
            "offline",
        ),
        (
            lambda world: world.registry.update_pool("demo", expires_at=time.time() + 0.5),
            lambda world: world.registry.update_pool("demo", expires_at=None),
            "expired",
        ),
        (
            lambda world: world.registry.set_user_permitted(world.registry.pool("demo").owner, False, time.time()),
            lambda world: world.registry.set_user_permitted(world.registry.pool("demo").owner, True, time.time()),
            "owner denied",
        ),
    ],
)
def test_a_disabled_pool_stops_cannot_be_woken_and_comes_back(
    world: World, disable: Callable[[World], object], enable: Callable[[World], object], reason: str
) -> None:
    world.create("demo")
    world.wake("demo")
    disable(world)
    wait_until(lambda: world.sleeps("demo"))
    status = world.registry.status("demo", time.time())
    assert (status.state, status.reason) == (PoolState.DISABLED, reason)
    with pytest.raises(Unavailable, match=reason):
        world.wake("demo")
    enable(world)
    assert world.wake("demo")


def test_stopping_a_pool_ends_manager_and_backend_and_it_can_be_woken_again(world: World) -> None:
    world.create("demo")
    world.wake("demo")
    manager, backend = world.pids("demo")
    world.registry.stop_pool("demo")
    assert world.sleeps("demo")
    assert not alive(backend)
    wait_until(lambda: not alive(manager))
    world.registry.stop_pool("demo")
    assert world.wake("demo")


def test_a_manager_told_to_end_while_it_starts_leaves_nothing(make: Callable[..., World]) -> None:
    world = make("pools.stop_seconds=0.5")
    world.create("demo")
    command = manager_command(world.data, "demo", world.settings)
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as manager:
        (backend,) = wait_until(lambda: backends_in(world.registry.pool("demo").directory))
        os.kill(backend, signal.SIGSTOP)  # it is not ready before the manager is told
        manager.terminate()
        line, _ = manager.communicate()
    assert b"SIGTERM" in line
    assert world.sleeps("demo")
    lock = PoolLock(world.data, "demo")
    assert lock.try_acquire()
    lock.release()


def test_a_pool_that_does_not_exist_cannot_be_woken(world: World) -> None:
    with pytest.raises(Unavailable, match="no pool"):
        world.wake("nosuch")


def test_a_directory_that_is_gone_makes_the_pool_inoperable_until_it_is_reset(world: World) -> None:
    world.create("demo")
    directory = Path(world.registry.pool("demo").directory)
    directory.rename(directory.with_name("elsewhere"))
    with pytest.raises(Unavailable, match="demo"):
        world.wake("demo")
    assert world.registry.status("demo", time.time()).state == PoolState.INOPERABLE
    directory.with_name("elsewhere").rename(directory)
    with pytest.raises(Unavailable, match="not in service"):
        world.wake("demo")
    world.registry.reset_pool("demo", now=time.time())
    assert world.wake("demo")


def test_without_free_ports_a_pool_is_not_yet_inoperable(make: Callable[..., World]) -> None:
    with taken_port() as port:
        ports = (f"pools.port_low={port - 3}", f"pools.port_high={port + 7}")
        world = make("pools.isolation=certificates", *ports)
        world.create("demo")
        with pytest.raises(Unavailable, match="ports") as caught:
            world.wake("demo")
        assert getattr(caught.value, "retry_after", None) == 0
        assert world.registry.status("demo", time.time()).state == PoolState.INITIAL
        assert world.sleeps("demo")


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        for port in range(31800, 32000, 20):
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            taken.listen()
            yield port
            return
        raise AssertionError("no port is free")
