"""A port of 127.0.0.1 in front of a backend's Unix socket, for clients that speak only TCP."""

from __future__ import annotations

import contextlib
import socket
import threading

from tidegate.backend_address import open_socket


class SocketForwarder:
    """Every connection goes to the socket that is at the path then; a backend that was started again is found."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                backend = open_socket(self._path)
            except OSError:
                client.close()
                continue
            backend.setblocking(True)
            for source, sink in ((client, backend), (backend, client)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Until either side ends; then both do, as a connection that broke would."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for side in (source, sink):
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
