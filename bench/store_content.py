"""Buckets with many small objects, put straight into a store, and a client that lists them page by page."""

from __future__ import annotations

import hashlib
import http.client
from collections.abc import Sequence

from bench.gateway.load import Job, drive
from bench.gateway.requests import Target

_CONNECTIONS = 32
_PUTS_AT_ONCE = 10_000
_BODY = b"x"


def fill(store: Target, bucket: str, keys: Sequence[str]) -> None:
    """Puts objects of one byte. The keys need no quoting in a path."""
    digest = hashlib.sha256(_BODY).hexdigest()
    for start in range(0, len(keys), _PUTS_AT_ONCE):
        some = keys[start : start + _PUTS_AT_ONCE]
        puts = [store.head("PUT", f"/{bucket}/{key}", length=len(_BODY), digest=digest) + _BODY for key in some]
        done = drive(Job(store.host, store.port, puts, _CONNECTIONS, seconds=600, limit=len(puts)))
        if done.failures:
            raise SystemExit(f"the bucket could not be filled: {done.failures}")


class Session:
    """One connection to a target, for one request after the other."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection = http.client.HTTPConnection(target.authority, timeout=60)
        self._connection.sock = target.connect(timeout=60)

    def get(self, path: str) -> bytes:
        """The body of the reply. `path` has the query, in the order in which a signature takes it."""
        head, *lines = self._target.head("GET", path).decode().split("\r\n")
        self._connection.request("GET", head.split(" ")[1], headers=dict(line.split(": ", 1) for line in lines if line))
        reply = self._connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            raise SystemExit(f"{self._target.name} answered GET {path} with status {reply.status}")
        return body
