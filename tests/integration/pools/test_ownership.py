"""Whose the process and the files are, and what a deletion leaves."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pool_world import World, alive, client, make_world, wait_until

from tidegate.core.errors import Unavailable
from tidegate.core.records import Key, PoolState


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
    credentials = world.create("demo", owner=owner)
    world.registry.create_bucket("bucket", "demo", now=time.time())
    client(world.wake("demo"), credentials).put_object(Bucket="bucket", Key="key", Body=b"mine")
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


def test_deleting_a_pool_stops_it_and_keeps_the_contents_which_a_new_pool_shows_again(world: World) -> None:
    credentials = world.create("demo")
    world.registry.create_bucket("bucket", "demo", now=time.time())
    client(world.wake("demo"), credentials).put_object(Bucket="bucket", Key="key", Body=b"kept")
    manager, backend = world.pids("demo")
    world.registry.delete_pool("demo")
    wait_until(lambda: not alive(manager) and not alive(backend))
    assert world.tables.scan(Key.PREFIX) == []
    credentials = world.create("demo")
    world.registry.create_bucket("bucket", "demo", now=time.time())
    s3 = client(world.wake("demo"), credentials)
    assert s3.get_object(Bucket="bucket", Key="key")["Body"].read() == b"kept"
    s3.put_object(Bucket="bucket", Key="key", Body=b"newer")
    world.registry.stop_pool("demo")
    assert client(world.wake("demo"), credentials).get_object(Bucket="bucket", Key="key")["Body"].read() == b"newer"


def test_a_directory_its_owner_cannot_reach_makes_the_pool_inoperable(open_world: World) -> None:
    if os.geteuid() == 0:
        closed = open_world.data.parent / f"{open_world.data.name}-closed"
        closed.mkdir(mode=0o700)
        try:
            open_world.create("demo", owner="nobody", directory=str(closed / "pool"))
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
