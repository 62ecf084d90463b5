"""A server on loopback that answers with given bytes: for what no real store can be made to say."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self


class ScriptedServer:
    """Takes one connection per script and gives its answers, one for each request; then it closes the connection.
    `requests` are head and body of what came. With `reads` false a request is answered before its body was read."""

    def __init__(self, *scripts: Sequence[bytes], reads: bool = True) -> None:
        self.requests: list[tuple[str, bytes]] = []
        self._scripts = scripts
        self._reads = reads
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        for script in self._scripts:
            with suppress(OSError):  # a client that has gone, or a test that has ended
                self._follow(script)

    def _follow(self, script: Sequence[bytes]) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as stream:
            for given in script:
                head = b"".join(iter(stream.readline, b"\r\n")).decode()
                lengths = [line for line in head.lower().splitlines() if line.startswith("content-length:")]
                size = int(lengths[0].split(":")[1]) if lengths and self._reads else 0
                self.requests.append((head, stream.read(size)))
                connection.sendall(given)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for a client
        self._listener.close()
        self._thread.join(10)


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def error_body(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>because</Message></Error>".encode()
