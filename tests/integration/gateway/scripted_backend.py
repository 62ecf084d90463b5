"""A gateway process in front of a store that does exactly what a test tells it, be it ever so odd."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from running_service import PoolKey

from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.records import BackendEntry, ManagerEntry
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault

Script = Callable[["Visit"], None]


class Visit:
    """A connection of the gateway, as the store sees it."""

    def __init__(self, connection: socket.socket, heads: list[bytes]) -> None:
        self.connection = connection
        self._heads = heads
        self._read = b""

    def head(self) -> bytes:
        while b"\r\n\r\n" not in self._read:
            piece = self.connection.recv(65536)
            if not piece:
                raise EOFError
            self._read += piece
        end = self._read.index(b"\r\n\r\n") + 4
        head, self._read = self._read[:end], self._read[end:]
        self._heads.append(head)
        return head

    def body(self, count: int) -> bytes:
        while len(self._read) < count:
            piece = self.connection.recv(65536)
            if not piece:
                raise EOFError
            self._read += piece
        body, self._read = self._read[:count], self._read[count:]
        return body

    def some(self) -> bytes:
        """The next bytes, however many there are."""
        piece, self._read = self._read, b""
        piece = piece or self.connection.recv(1 << 20)
        if not piece:
            raise EOFError
        return piece

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)


class Store:
    """Runs one script per connection, in the order the connections come; the last script serves all that follow."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._scripts: list[Script] = []
        self._open: dict[threading.Thread, socket.socket] = {}
        self.visits = 0
        self.heads: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def play(self, *scripts: Script) -> None:
        """Begins anew, when the gateway has closed the connections of before."""
        for thread, connection in list(self._open.items()):
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_WR)
            thread.join(30)
        self._open.clear()
        self._scripts = list(scripts)
        self.visits = 0
        self.heads = []

    def asked(self, start: bytes) -> int:
        """How many requests that begin so came."""
        return sum(head.startswith(start) for head in self.heads)

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed: the tests are over
            self.visits += 1
            script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
            thread = threading.Thread(target=self._run, args=(script, connection), daemon=True)
            self._open[thread] = connection
            thread.start()

    def _run(self, script: Script, connection: socket.socket) -> None:
        with connection:
            try:
                script(Visit(connection, self.heads))
            except (EOFError, OSError):
                return  # the gateway has hung up


class LoneGateway:
    """One gateway process and a pool whose running backend is the scripted store."""

    pool = "scripted"
    bucket = "scripted-bucket"
    overrides: ClassVar[tuple[str, ...]] = ("gateway.backend_seconds=10", "gateway.stall_seconds=10", "log.access=file")

    def __init__(self, data: Path, store: Store, *settings: str) -> None:
        self.data = data
        self.store = store
        self.settings = settings_module.load(data, overrides=(*self.overrides, *settings))
        (data / "run").mkdir(parents=True, mode=0o700)
        (data / "run" / "settings.json").write_text(settings_module.dump(self.settings))
        self.tables = open_tables(self.settings, data)
        self._vault = Vault.open(data)
        registry = Registry(self.tables, self._vault, data, self.settings)
        registry.create_pool(self.pool, now=time.time())
        key, secret = registry.create_key(self.pool, now=time.time())
        registry.create_bucket(self.bucket, self.pool, now=time.time())
        self.key = PoolKey(self.pool, key.access_key, secret)
        self.settle()
        self._start()

    def settle(self, token: str = "token") -> None:
        """Enters the store as the pool's backend, as a manager does."""
        manager = ManagerEntry("here", os.getpid(), token, time.time())
        sealed = self._vault.seal("admin-secret")
        backend = BackendEntry(
            self.store.address, os.getpid(), "ADMIN", sealed, "here", os.getpid(), token, 10**9, time.time()
        )
        self.tables.put("ma:" + self.pool, manager.to_json())
        self.tables.put("mn:" + self.pool, backend.to_json())
        self.tables.put("ep:" + self.pool, self.store.address)

    def _start(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = [sys.executable, "-m", "tidegate.gateway.serve", "--data", str(self.data)]
        with (self.data / "gateway.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--fd", str(listener.fileno())],
                pass_fds=[listener.fileno()],
                stderr=log,
                preexec_fn=_few_descriptors,
            )
        listener.close()

    def path(self, key: str, query: str = "") -> str:
        return f"/{self.bucket}/{key}{'?' + query if query else ''}"

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()
            self.store.close()
            self.tables.close()


def _few_descriptors() -> None:
    """As in a shell with a low limit, which the gateway may raise."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
