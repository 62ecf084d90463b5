"""The check of the header `Host`: the API answers to its own names only.

A page of a stranger's can make a browser on this machine send requests here, by letting its own host name lead to this
address (DNS rebinding). Such a request names that host, and is refused.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.web.errors import error_response

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def own_names(host: str, port: int, names: Collection[str], *, tls: bool) -> frozenset[str]:
    """The values of `Host` for an API that listens there: with its port, and without where that is the usual one."""
    found = set()
    for name in (*_LOCAL, _bracketed(host), *names):
        own, given = _split(name.lower())
        found.add(_join(own, given or str(port)))
        if not given and port == _DEFAULT_PORTS["https" if tls else "http"]:
            found.add(own)
    return frozenset(found)


class HostCheck:
    """Refuses requests for names that are not ours, before anything else looks at them."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_ours(scope):
            text = "this is not a name of the API: use its address, or put the name into the setting api.names"
            await error_response(421, "MisdirectedRequest", text, {"Connection": "close"})(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_ours(self, scope: Scope) -> bool:
        given = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1:
            return False
        host, port = _split(given[0])
        if _join(host, port) in self._names:
            return True
        # The address that the client connected to, which may be any of this machine's: no name leads there.
        address, number = scope["server"]
        return (host, port) == (_bracketed(address), str(number))


def _split(name: str) -> tuple[str, str]:
    """Host and port, which may be empty; a dot at the end of the host means nothing."""
    host, colon, port = name.rpartition(":")
    has_port = bool(colon) and port.isdigit() and (":" not in host or host.endswith("]"))
    return (host.rstrip("."), port) if has_port else (name.rstrip("."), "")


def _join(host: str, port: str) -> str:
    return f"{host}:{port}" if port else host


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
