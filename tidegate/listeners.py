"""Listening sockets: opened by the supervisor, inherited by gateways and the API, kept while those are replaced."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from typing import Any

from tidegate.core.errors import InvalidInput, Unavailable

_BACKLOG = 4096
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
# Gateways of a killed supervisor need a moment to let go of the port.
_PATIENCE_SECONDS = 5.0


def open_listeners(host: str, port: int, count: int, setting: str) -> list[socket.socket]:
    """`count` sockets on one port; the kernel spreads the connections over them.

    `setting` is the section to name when the address cannot be used.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise InvalidInput(f"{setting}.host {host!r} is not an address of this machine: {error.strerror}") from None
    probe = _claim(family, address, setting)
    listeners = []
    try:
        actual = probe.getsockname()
        # The probe stays bound, not listening, until the first real socket is: the port cannot be lost between them.
        for _ in range(count):
            listener = _bound(family, actual, shared=True)
            listener.listen(_BACKLOG)
            listeners.append(listener)
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise Unavailable(f"{setting}: cannot listen on {host}:{port}: {error.strerror}") from None
    finally:
        probe.close()
    return listeners


def _claim(family: int, address: tuple[object, ...], setting: str) -> socket.socket:
    """A socket that shows that nobody else listens there.

    With SO_REUSEPORT alone, a second service of the same user would silently get half of the connections.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            _bound(family, address, shared=False).close()
            return _bound(family, address, shared=True)
        except OSError as error:
            host, port = address[0], address[1]
            if error.errno != errno.EADDRINUSE:
                raise InvalidInput(
                    f"{setting}: cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}"
                ) from None
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{setting}: port {port} on {host} is in use by another program; "
                    f"choose another with --set {setting}.port=PORT (0 picks a free one)"
                ) from None
        time.sleep(0.1)


def _bound(family: int, address: tuple[object, ...], *, shared: bool) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def base_address(listening: tuple[Any, ...], *, tls: bool) -> str:
    """The URL under which this machine reaches a socket with that name (`getsockname`)."""
    host, port = listening[:2]
    host = _WILDCARDS.get(host, host)
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def check_tls(certificate: str, key: str, setting: str) -> bool:
    """Whether TLS is configured; refuses files that cannot serve before anything is started."""
    if not certificate and not key:
        return False
    if not certificate or not key:
        raise InvalidInput(f"{setting}.tls_certificate and {setting}.tls_key must be set together")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"{setting}.tls_certificate, {setting}.tls_key: {error}") from None
    return True
