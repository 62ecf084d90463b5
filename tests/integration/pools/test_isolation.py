"""Nobody but the service reaches a backend in a namespace of its own."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from open_places import service_user
from outsiders import AS_NOBODY, WITHOUT_NAMESPACES, attack, contents, filled, listening, needs_root, sockets_of
from pool_world import World, make_world, wait_until

from tidegate.core.records import PoolState
from tidegate.pools.backends.ports_range import free_blocks


def test_no_port_of_a_backend_can_be_seen_outside(world: World) -> None:
    filled(world)
    pid = world.backend("demo").pid
    inside = listening(str(pid))
    assert len(sockets_of(pid) & inside.keys()) == 8
    assert sockets_of(pid).isdisjoint(listening("self"))


def test_a_backend_has_no_privileges(world: World) -> None:
    world.create("demo")
    world.wake("demo")
    lines = Path(f"/proc/{world.backend('demo').pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"


def test_backends_run_side_by_side_on_the_same_ports(world: World) -> None:
    clients = {pool: filled(world, pool) for pool in ("one", "two")}
    ports = [set(listening(str(world.backend(pool).pid)).values()) for pool in clients]
    assert ports[0] == ports[1]
    for pool, s3 in clients.items():
        assert contents(s3, pool) == f"contents of {pool}".encode()
        assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == [f"secret-{pool}"]


def test_a_backend_has_a_tmp_of_its_own(world: World) -> None:
    filled(world)
    inside = Path("/proc", str(world.backend("demo").pid), "root", "tmp")
    assert len(list(inside.glob("seaweedfs-*-grpc-*.sock"))) == 4
    assert inside.stat().st_dev != Path("/tmp").stat().st_dev


def test_a_data_directory_too_deep_for_a_socket_s_path_works(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-long-name-of-a-directory"] * 6)
    deep.mkdir(parents=True)
    world = make_world(deep)
    try:
        assert contents(filled(world)) == b"contents of demo"
        assert len(os.fsencode(world.wake("demo"))) > 107
    finally:
        world.close()


@needs_root
def test_another_user_cannot_open_the_socket(open_make: Callable[..., World]) -> None:
    world = open_make()
    s3 = filled(world, owner="daemon")
    endpoint = world.wake("demo")
    done = subprocess.run(
        [*AS_NOBODY, "curl", "-sS", "-m", "5", "--unix-socket", endpoint, "http://localhost/healthz"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and done.stdout == ""
    assert contents(s3) == b"contents of demo"


@needs_root
def test_the_socket_is_the_owner_s_in_a_directory_for_owner_and_service_alone(open_make: Callable[..., World]) -> None:
    world = open_make()
    filled(world, owner="nobody")
    path = Path(world.wake("demo"))
    owner = pwd.getpwnam("nobody").pw_uid
    directory = path.parent.stat()
    service = service_user().pw_gid
    assert (directory.st_uid, directory.st_gid, stat.S_IMODE(directory.st_mode)) == (owner, service, 0o710)
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (owner, 0o777)
    assert stat.S_IMODE((world.data / "run").stat().st_mode) == 0o700


@needs_root
def test_an_owner_who_puts_another_socket_in_place_is_not_spoken_to(open_make: Callable[..., World]) -> None:
    world = open_make()
    world.create("demo", owner="nobody")
    path = Path(world.wake("demo"))
    with socket.socket(socket.AF_UNIX) as other, tempfile.TemporaryDirectory() as place:
        other.bind(f"{place}/other")
        other.listen()
        path.unlink()
        path.symlink_to(f"{place}/other")
        wait_until(lambda: world.sleeps("demo"))  # its checks fail
        other.setblocking(False)
        said = b""
        try:
            while True:
                said += other.accept()[0].recv(1000)
        except BlockingIOError:
            assert said == b""


def test_what_a_killed_backend_and_its_manager_left_is_removed(world: World) -> None:
    world.create("demo")
    path = Path(world.wake("demo"))
    for pid in world.pids("demo"):
        with suppress(ProcessLookupError):  # it ends with the manager
            os.kill(pid, 9)
    assert path.exists()
    (path.parent / "left").touch()
    assert world.wake("demo") == str(path)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    world.registry.stop_pool("demo")
    assert not path.parent.exists()


@needs_root
def test_a_pool_of_root_s_below_another_user_s_closed_directory_works(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-", dir="/var/tmp") as home:
        data = Path(home) / "data"
        data.mkdir()
        os.chown(home, 65534, 65534)
        Path(home).chmod(0o700)
        world = make_world(data)
        try:
            assert contents(filled(world)) == b"contents of demo"
        finally:
            world.close()


@needs_root
def test_weed_s_own_tools_find_nothing_as_another_user(open_make: Callable[..., World]) -> None:
    """At ports on which nobody else listens: an attack that found another server there would harm it."""
    first = next(iter(free_blocks((32000, 32767), 20))).start
    world = open_make(f"pools.port_low={first}", f"pools.port_high={first + 19}")
    s3 = filled(world)
    ports = sorted(listening(str(world.backend("demo").pid)).values())
    assert ports == list(range(first, first + 8))
    assert set(ports).isdisjoint(listening("self").values())
    attack(ports)
    assert contents(s3) == b"contents of demo"


def test_without_namespaces_a_pool_does_not_start_and_says_why(open_make: Callable[..., World]) -> None:
    world = open_make()
    world.create("demo")
    manager = [sys.executable, "-m", "tidegate.pools.manager", "--data", str(world.data), "--pool", "demo"]
    done = subprocess.run([*WITHOUT_NAMESPACES, *manager], capture_output=True, text=True)
    assert "no namespaces" in done.stdout
    assert world.registry.status("demo", time.time()).state == PoolState.INOPERABLE


def test_without_namespaces_the_service_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    tidegate = Path(sys.executable).with_name("tidegate")
    done = subprocess.run(
        [*WITHOUT_NAMESPACES, str(tidegate), "up", "--data", str(tmp_path / "data")], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "pools.isolation" in done.stderr and "no namespaces" in done.stderr
