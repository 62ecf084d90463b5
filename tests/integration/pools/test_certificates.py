"""Where backends have no namespaces, nobody reaches them without a certificate."""

from __future__ import annotations

import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from outsiders import WITHOUT_NAMESPACES, attack, contents, filled, listening, needs_root, request, sockets_of
from pool_world import World, client


def test_with_certificates_a_pool_runs_without_namespaces(open_make: Callable[..., World]) -> None:
    """All of it within a user namespace that has no network namespaces; a process outside cannot ask it."""
    world = open_make("pools.isolation=certificates")
    world.create("demo")
    manager = [sys.executable, "-m", "tidegate.pools.manager", "--data", str(world.data), "--pool", "demo"]
    with subprocess.Popen([*WITHOUT_NAMESPACES, *manager], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "s3.sock" in process.stdout.readline()
        process.terminate()


def test_with_certificates_no_port_says_or_does_anything_without_one(make: Callable[..., World]) -> None:
    world = make("pools.isolation=certificates")
    s3 = filled(world)
    pid = world.backend("demo").pid
    here = listening("self")
    ports = {port for inode, port in here.items() if inode in sockets_of(pid)}
    assert len(ports) == 8
    master, _, volume, _, filer, _, door, _ = sorted(ports)
    for port in sorted(ports)[1::2]:
        assert grpc_hello(port, tls=False) == b""
        assert grpc_hello(port, tls=True) == b""
    paths = ("/", "/dir/assign", "/dir/status", "/dir/lookup?volumeId=1", "/cluster/status", "/vol/status",
             "/vol/grow?count=1", "/col/delete?collection=secret-demo", "/stats/memory", "/status", "/ui/index.html",
             "/metrics", "/buckets/secret-demo/key", "/submit")  # fmt: skip
    for port in (master, volume, filer):
        for path in paths:
            status, body = request(port, path)
            assert (status, body) in ((400, b"Client sent an HTTP request to an HTTPS server.\n"), (0, b"")), path
            assert not over_tls(port, path)
    assert request(door, "/secret-demo/key")[0] == 403
    assert {request(door, path) for path in ("/status", "/healthz")} == {(200, b"")}
    assert contents(s3) == b"contents of demo"
    with pytest.raises(Exception, match="AccessDenied"):
        client(world.wake("demo"), None).list_buckets()


def grpc_hello(port: int, *, tls: bool) -> bytes:
    """What a gRPC server answers to a client that has no certificate: a server that would talk sends its settings."""
    context = ssl._create_unverified_context()
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            connection = context.wrap_socket(plain) if tls else plain
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            return connection.recv(100)
    except TimeoutError:
        raise
    except OSError:
        return b""


def over_tls(port: int, path: str) -> str:
    """What a client says that trusts everybody and has no certificate."""
    url = f"https://127.0.0.1:{port}{path}"
    return subprocess.run(["curl", "-sk", "-m", "5", url], capture_output=True, text=True).stdout


@needs_root
def test_with_certificates_weed_s_own_tools_do_nothing_as_another_user(open_make: Callable[..., World]) -> None:
    world = open_make("pools.isolation=certificates")
    s3 = filled(world)
    pid = world.backend("demo").pid
    ports = sorted(port for inode, port in listening("self").items() if inode in sockets_of(pid))
    attack(ports)
    beside = [path for port in ports for path in Path("/tmp").glob(f"seaweedfs-*-grpc-{port}.sock")]
    assert len(beside) == 4
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in beside} == {0}
    assert contents(s3) == b"contents of demo"


def test_with_certificates_nothing_of_them_stands_in_a_file(make: Callable[..., World]) -> None:
    world = make("pools.isolation=certificates")
    filled(world)
    directory = Path(world.registry.pool("demo").directory)
    assert not any(b"PRIVATE KEY" in file.read_bytes() for file in directory.rglob("*") if file.is_file())
