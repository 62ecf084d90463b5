"""A pool with a bucket behind a running service, and short ways to ask something of it."""

from __future__ import annotations

import itertools
from typing import Any

from raw_http import Answer, Wire, request
from running_service import PoolKey, RunningService

_keys = itertools.count(1)


class Place:
    def __init__(self, service: RunningService, pool: str, bucket: str, *options: str) -> None:
        self.service = service
        self.url = service.s3_url
        self.key: PoolKey = service.create_pool(pool, *options)
        self.bucket = bucket
        self.s3: Any = service.s3(self.key)
        self.s3.create_bucket(Bucket=bucket)

    def wire(self, **options: Any) -> Wire:
        return Wire(self.url, **options)

    def fresh(self, name: str = "object") -> str:
        """A key that no other test uses."""
        return f"{name}-{next(_keys)}"

    def path(self, key: str = "", query: str = "") -> str:
        return f"/{self.bucket}/{key}{'?' + query if query else ''}" if key else f"/{self.bucket}"

    def request(self, method: str, path: str, body: bytes = b"", **options: Any) -> bytes:
        return request(self.url, self.key, method, path, body, **options)

    def ask(self, method: str, path: str, body: bytes = b"", **options: Any) -> Answer:
        """One signed request on a connection of its own."""
        with self.wire() as wire:
            return wire.ask(self.request(method, path, body, **options), to_head=method == "HEAD")

    def anonymous(self, method: str, path: str, body: bytes = b"", **options: Any) -> Answer:
        with self.wire() as wire:
            return wire.ask(request(self.url, None, method, path, body, **options), to_head=method == "HEAD")

    def stored(self, key: str) -> bytes | None:
        """What is in the store under that key."""
        try:
            body: bytes = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except self.s3.exceptions.NoSuchKey:
            return None
        return body
