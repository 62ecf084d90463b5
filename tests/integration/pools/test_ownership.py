"""Whose the process and the files are, and what a deletion leaves."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from open_places import service_user
from pool_world import World, alive, make_world, wait_until

from tidegate.core.errors import Unavailable
from tidegate.core.records import Key, PoolState
from tidegate.processes import descendants_of
from tidegate.service_account import MANAGER


@pytest.fixture
def open_world() -> Iterator[World]:
    """In a place that other users can reach."""
    with tempfile.TemporaryDirectory(prefix="tidegate-") as directory:
        made = make_world(Path(directory))
        yield made
        made.close()


def test_process_and_files_belong_to_the_pool_s_owner(open_world: World) -> None:
    """As root to another user, otherwise to the current one."""
    world = open_world
    owner = "nobody" if os.geteuid() == 0 else ""
    world.create("demo", "bucket", owner=owner)
    world.client("demo").put_object(Bucket="bucket", Key="key", Body=b"mine")
    uid = pwd.getpwnam(owner).pw_uid if owner else os.geteuid()
    process = Path(f"/proc/{world.backend('demo').pid}")
    assert process.stat().st_uid == uid
    directory = Path(world.registry.pool("demo").directory)
    for file in (directory, *directory.rglob("*")):
        assert file.stat().st_uid == uid, file
        assert not file.is_dir() or file.stat().st_mode & 0o077 == 0, file
    names = {entry.partition(b"=")[0] for entry in (process / "environ").read_bytes().split(b"\0") if entry}
    kept = {b"HOME", b"LANG", b"LC_CTYPE", b"LOGNAME", b"PATH", b"SHELL", b"USER", b"USERNAME", b"PWD", b"OLDPWD", b"_"}
    assert {name for name in names if not name.startswith(b"WEED_JWT_")} <= kept


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("owner", ["", "nobody"])
def test_no_process_of_a_pool_is_root_s_and_its_backend_can_become_nobody_else(open_world: World, owner: str) -> None:
    if owner and os.geteuid() != 0:
        pytest.skip("only root can run backends as other users")
    open_world.create("demo", owner=owner)
    open_world.wake("demo")
    manager, backend = open_world.pids("demo")
    expected = pwd.getpwnam(owner) if owner else service_user()
    assert open_world.registry.pool("demo").owner == expected.pw_name
    assert set(status_of(manager)["Uid"].split()) == {str(service_user().pw_uid)}
    rights = int(status_of(manager)["CapPrm"], 16)
    assert rights == (sum(1 << number for number in MANAGER) if os.geteuid() == 0 else 0)
    for pid in (backend, *descendants_of(backend)):
        status = status_of(pid)
        assert set(status["Uid"].split()) == {str(expected.pw_uid)}
        assert {int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Amb")} == {0}
        assert status["NoNewPrivs"] == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run backends as other users")
def test_a_backend_of_another_owner_dies_with_its_killed_manager(open_world: World) -> None:
    open_world.create("demo", owner="nobody")
    open_world.wake("demo")
    manager, backend = open_world.pids("demo")
    os.kill(manager, signal.SIGKILL)
    wait_until(lambda: not alive(backend))
    assert open_world.wake("demo")
    assert open_world.pids("demo")[1] != backend


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has pools of root's from earlier")
def test_a_pool_that_was_root_s_is_refused_until_its_directory_is_given_away(open_world: World) -> None:
    open_world.create("demo")
    pool = open_world.registry.pool("demo")
    directory = Path(pool.directory)
    open_world.tables.put("po:demo", replace(pool, owner="root", group="root").to_json())
    for path in (directory, directory / ".tidegate-pool"):
        os.chown(path, 0, 0)
    with pytest.raises(Unavailable, match=f"no backend runs as root.*chown -R tidegate:tidegate {directory}"):
        open_world.wake("demo")
    shutil.chown(directory, "tidegate", "tidegate")
    shutil.chown(directory / ".tidegate-pool", "tidegate", "tidegate")
    open_world.registry.reset_pool("demo", now=time.time())
    open_world.wake("demo")
    assert open_world.registry.pool("demo").owner == "tidegate"


def test_deleting_a_pool_stops_it_and_keeps_the_contents_which_a_new_pool_shows_again(world: World) -> None:
    world.create("demo", "bucket")
    world.client("demo").put_object(Bucket="bucket", Key="key", Body=b"kept")
    manager, backend = world.pids("demo")
    world.registry.delete_pool("demo")
    wait_until(lambda: not alive(manager) and not alive(backend))
    assert world.tables.scan(Key.PREFIX) == []
    world.create("demo", "bucket")
    s3 = world.client("demo")
    assert s3.get_object(Bucket="bucket", Key="key")["Body"].read() == b"kept"
    s3.put_object(Bucket="bucket", Key="key", Body=b"newer")
    world.registry.stop_pool("demo")
    assert world.client("demo").get_object(Bucket="bucket", Key="key")["Body"].read() == b"newer"


def test_a_directory_its_owner_cannot_reach_makes_the_pool_inoperable(open_world: World) -> None:
    if os.geteuid() == 0:
        closed = open_world.data.parent / f"{open_world.data.name}-closed"
        closed.mkdir()
        closed.chmod(0o777)
        try:
            open_world.create("demo", owner="nobody", directory=str(closed / "pool"))
            closed.chmod(0o700)
            with pytest.raises(Unavailable, match="may not pass"):
                open_world.wake("demo")
        finally:
            shutil.rmtree(closed)
    else:
        open_world.create("demo")
        directory = Path(open_world.registry.pool("demo").directory)
        directory.chmod(0)
        with pytest.raises(Unavailable, match="cannot use"):
            open_world.wake("demo")
        directory.chmod(0o700)
    assert open_world.registry.status("demo", time.time()).state == PoolState.INOPERABLE
