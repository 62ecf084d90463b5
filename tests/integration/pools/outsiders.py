"""Ways to look at a backend from outside, and to attack it as somebody else."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import user_namespace
from pool_world import World

WEED = Path(sys.executable).with_name("weed")
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/nonexistent"]
# A user namespace in which no network namespace can be made: what a system without them looks like.
WITHOUT_NAMESPACES = user_namespace.prefix("--without-networks")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def filled(world: World, pool: str = "demo", **options: Any) -> Any:
    """A client of a running pool with the object `secret/key`, whose contents are the pool's name."""
    world.create(pool, f"secret-{pool}", **options)
    s3 = world.client(pool)
    s3.put_object(Bucket=f"secret-{pool}", Key="key", Body=f"contents of {pool}".encode())
    return s3


def contents(s3: Any, pool: str = "demo") -> bytes:
    return bytes(s3.get_object(Bucket=f"secret-{pool}", Key="key")["Body"].read())


def listening(process: str) -> dict[str, int]:
    """Ports by the inodes of their sockets, in the network that a process sees."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                found[words[9]] = int(words[1].rpartition(":")[2], 16)
    return found


def sockets_of(pid: int) -> set[str]:
    links = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            links.add(str(entry.readlink()))
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def attack(ports: list[int]) -> None:
    """What deleted and fetched objects where ports can be reached: as another user, without any key. The ports must be
    the test's own, or nobody's."""
    master, volume = ports[0], ports[2]
    script = "lock\ncollection.list\ncollection.delete -collection secret-demo -force\nfs.rm -rf /buckets/secret-demo\n"
    shell = run_as_nobody([str(WEED), "shell", f"-master=127.0.0.1:{master}.{master + 1}"], script)
    assert "secret-demo" not in shell
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        for volume_id in range(1, 8):
            server = f"-master=127.0.0.1:{master}.{master + 1}"
            run_as_nobody([str(WEED), "backup", f"-dir={place}", server, f"-volumeId={volume_id}"], "", seconds=2)
        assert not any(b"contents of demo" in file.read_bytes() for file in Path(place).iterdir())
    for port in (master, volume):
        for path in ("/col/delete?collection=secret-demo", "/vol/grow?count=1", "/dir/assign"):
            request(port, path)


def run_as_nobody(command: list[str], script: str, *, seconds: float = 6) -> str:
    limited = ["timeout", "-s", "KILL", str(seconds), *AS_NOBODY, *command]
    done = subprocess.run(limited, input=script, capture_output=True, text=True, cwd="/")
    return done.stdout


def request(port: int, path: str) -> tuple[int, bytes]:
    """Without any key. The status is 0 when there is no HTTP."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()
