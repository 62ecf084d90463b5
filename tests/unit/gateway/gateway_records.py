"""A directory on real tables, with a pool, keys and buckets in it, and requests signed for them."""

from __future__ import annotations

import time
from pathlib import Path

from tidegate import settings as settings_module
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core import sigv4
from tidegate.core.records import BackendEntry
from tidegate.core.sigv4.canonical import canonical_pairs, canonical_request
from tidegate.core.sigv4.keys import format_stamp, string_to_sign
from tidegate.gateway.http.http1 import RequestHead
from tidegate.gateway.requests.admission import Admission, admit
from tidegate.gateway.requests.directory import Directory, Missing
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault


class Records:
    def __init__(self, data: Path, **gateway: object) -> None:
        settings = settings_module.load(data)
        self.settings = settings.gateway.model_copy(update={"direct_domain": "direct.test", **gateway})
        self.tables = SqliteTables(data / "tables.db")
        self.vault = Vault.open(data)
        self.changes = ChangeCounter(data)
        self.registry = Registry(self.tables, self.vault, data, settings)
        self.directory = Directory(self.tables, self.vault, self.changes, life=60)
        self.now = time.time()
        self.keys: dict[str, tuple[str, str]] = {}

    def add_pool(self, name: str, *, awake: bool = True, direct: str = "") -> None:
        self.registry.create_pool(name, now=self.now, direct_hostname=direct)
        self.add_key(name, name)
        self.registry.create_bucket(f"{name}-bucket", name, now=self.now)
        if awake:
            sealed = self.vault.seal("admin")
            entry = BackendEntry("127.0.0.1:1", 1, "ADMIN", sealed, "host", 1, "token", 1, self.now)
            self.tables.put("mn:" + name, entry.to_json())
            self.tables.put("ep:" + name, entry.endpoint)

    def add_key(self, label: str, pool: str, *, policy: str = "readwrite", expires_at: float | None = None) -> None:
        key, secret = self.registry.create_key(pool, now=self.now, policy=policy, expires_at=expires_at)
        self.keys[label] = (key.access_key, secret)

    def head(
        self, method: str, target: str, key: str | tuple[str, str] | None = None, *, host: str = "gate", **headers: str
    ) -> RequestHead:
        """A request, signed with the key of that label; header names are written with underscores."""
        path, _, query = target.partition("?")
        sent = {b"host": host.encode()} | {
            name.replace("_", "-").encode(): value.encode() for name, value in headers.items()
        }
        if key is not None:
            access_key, secret = self.keys[key] if isinstance(key, str) else key
            sent |= sigv4.sign(
                method.encode(),
                path.encode(),
                query.encode(),
                sent,
                access_key=access_key,
                secret=secret,
                region="us-east-1",
                payload=sent.get(b"x-amz-content-sha256", b"UNSIGNED-PAYLOAD").decode(),
                now=self.now,
            )
        lines = [f"{method} {target} HTTP/1.1".encode(), *(name + b": " + value for name, value in sent.items())]
        return RequestHead(b"\r\n".join(lines) + b"\r\n\r\n")

    def presigned(self, method: str, target: str, key: str, *, host: str = "gate", **headers: str) -> RequestHead:
        """A request with its signature in the query."""
        path, _, query = target.partition("?")
        access_key, secret = self.keys[key]
        stamp = format_stamp(self.now)
        scope = f"{stamp[:8].decode()}/us-east-1/s3/aws4_request"
        added = (
            f"&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={access_key}/{scope}"
            f"&X-Amz-Date={stamp.decode()}&X-Amz-Expires=60&X-Amz-SignedHeaders=host"
        )
        pairs = canonical_pairs((query + added).encode())
        payload = dict(pairs).get(b"X-Amz-Content-Sha256", b"UNSIGNED-PAYLOAD")
        canonical = canonical_request(
            method.encode(), path.encode(), pairs, {b"host": host.encode()}, (b"host",), payload
        )
        key = sigv4.signing_key(secret, stamp[:8].decode(), "us-east-1")
        signature = key.sign(string_to_sign(stamp, scope.encode(), canonical))
        lines = [f"{method} {path}?{query}{added}&X-Amz-Signature={signature} HTTP/1.1", f"host: {host}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return RequestHead("\r\n".join([*lines, "", ""]).encode())

    async def admitted(self, head: RequestHead, now: float | None = None) -> Admission:
        """Decides as an exchange does: what is missing is loaded, then the question is asked again."""
        while True:
            try:
                return admit(head, self.directory, self.settings, self.now if now is None else now)
            except Missing as missing:
                await self.directory.load(missing)

    def close(self) -> None:
        self.directory.close()
        self.changes.close()
        self.tables.close()
