"""What the exchanges of one gateway process share: settings, directory, backends, key locks, log writer, counters."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Coroutine
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tidegate import metrics
from tidegate.assembly import open_topics
from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.hosts import TrustedHosts
from tidegate.core.records import GatewayEntry
from tidegate.core.s3errors import S3Error
from tidegate.gateway.backends import Backends
from tidegate.gateway.changes.healer import Healer
from tidegate.gateway.changes.intents import Intents
from tidegate.gateway.changes.key_locks import KeyLocks
from tidegate.gateway.changes.log_writer import LogWriter
from tidegate.gateway.changes.write_gate import WriteGate
from tidegate.gateway.http.access_log import AccessLine
from tidegate.gateway.http.connection import ClientConnection
from tidegate.gateway.requests.admission import Admission
from tidegate.gateway.requests.directory import Directory
from tidegate.gateway.requests.exchange import Exchange
from tidegate.logs import AccessLog
from tidegate.movement.locations import Locations
from tidegate.pools.catalogue import LAST_ACCESS
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.registry import Registry
from tidegate.ports import Tables, Topics
from tidegate.settings import Settings

logger = logging.getLogger(__name__)

_AUTH_CODES = frozenset(
    (
        "AccessDenied",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "RequestTimeTooSkewed",
        "AuthorizationHeaderMalformed",
    )
)


class Gateway:
    def __init__(
        self,
        *,
        settings: Settings,
        data: Path,
        loop: asyncio.AbstractEventLoop,
        tables: Tables,
        registry: Registry,
        locations: Locations,
        directory: Directory,
        change_counter: ChangeCounter,
        key_locks: KeyLocks,
        log_writer: LogWriter,
        intents: Intents,
        gate: WriteGate,
        access_log: AccessLog,
        address: tuple[str, int],
    ) -> None:
        self.settings = settings
        self.data = data
        self.loop = loop
        self.tables = tables
        self.registry = registry
        self.locations = locations
        self.directory = directory
        self.change_counter = change_counter
        self.key_locks = key_locks
        self.log_writer = log_writer
        self.intents = intents
        self.gate = gate
        self.backends = Backends(settings, data, loop, tables, directory, change_counter, self._touch)
        self.healer = Healer(self)
        self.connections: set[ClientConnection] = set()
        # Those without a request, since when: the longest idle first.
        self.idle: OrderedDict[ClientConnection, float] = OrderedDict()
        self.orphans: set[Exchange] = set()
        self.draining = False
        # Longest wait for something that is not the client's doing: a pool that wakes, a key's lock, the log.
        self.patience_seconds = settings.pools.start_seconds + settings.gateway.backend_seconds
        self.stall_seconds = settings.gateway.stall_seconds
        self._access = AccessLine(access_log)
        self._access_log = access_log
        self._trusted = TrustedHosts.of(settings.gateway.trusted_hosts, _resolve)
        self._request_prefix = secrets.token_hex(5).upper()
        self._request_count = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._auth_failures: Counter[str] = Counter()
        self._bytes_in = 0
        self._bytes_out = 0
        self._seconds = metrics.Durations(metrics.REQUEST_SECONDS)
        self._touched: set[str] = set()
        self._date = (0, "")
        self._background: set[asyncio.Task[None]] = set()
        self._deletion_topics: Topics | None = None
        self.name = f"gateway:{socket.gethostname()}:{os.getpid()}"
        self._entry = GatewayEntry(address[0], address[1], os.getpid(), time.time(), time.time())

    # --- small services to the exchanges ---------------------------------------------------------

    def next_request_id(self) -> str:
        self._request_count += 1
        return f"{self._request_prefix}{self._request_count:010X}"

    def own_reply(
        self,
        status: int,
        request_id: str,
        headers: dict[str, str],
        body: bytes,
        keep_alive: bool,
        with_body: bool = True,
    ) -> bytes:
        """A reply that the gateway gives itself. Without its body it still tells the length, as HEAD wants it."""
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"x-amz-request-id: {request_id}"]
        lines += ["Server: Tidegate", f"Date: {self.http_date()}"]
        lines.extend(f"{name}: {value}" for name, value in headers.items())
        if status != HTTPStatus.NO_CONTENT:
            lines.append(f"Content-Length: {len(body)}")
        if not keep_alive:
            lines.append("Connection: close")
        text = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
        return text + body if with_body else text

    def http_date(self) -> str:
        now = int(time.time())
        if now != self._date[0]:
            self._date = (now, formatdate(now, usegmt=True))
        return self._date[1]

    def trusts(self, address: str) -> bool:
        return self._trusted.allows(address)

    def connection_refused(self, reason: str) -> None:
        metrics.REFUSED_CONNECTIONS.labels(reason).inc()

    def count_backend_error(self, kind: str) -> None:
        metrics.BACKEND_ERRORS.labels(kind).inc()

    def malformed_head(self, peer: str, error: S3Error) -> None:
        self._requests["malformed", error.status // 100] += 1
        self._access.write_malformed(peer, error.status)

    def exchange_ended(self, exchange: Exchange) -> None:
        admission = exchange.admission
        if admission is not None:
            name = admission.operation.name
            if name != "CorsPreflight":  # which asks nothing of the pool, and so must not keep it awake
                self._touched.add(admission.pool.pool.name)
        else:
            name = "refused"
            if exchange.error_code in _AUTH_CODES:
                self._auth_failures[exchange.error_code] += 1
        self._requests[name, exchange.status // 100] += 1
        if exchange.intake is not None:
            self._bytes_in += exchange.intake.wire_bytes
        self._bytes_out += exchange.sent_bytes
        self._seconds.observe(self.loop.time() - exchange.started)
        self.orphans.discard(exchange)
        self._access.write(exchange)

    def check_writable(self, admission: Admission, size: int = 0) -> None:
        """Raises `Unavailable` if the operation would change something and that is not possible now. `size` is that of
        a body that is still to come."""
        if admission.operation.changes:
            self.gate.check(admission.pool.pool.directory, removes=admission.operation.removes, size=size)

    def _touch(self, pool: str) -> None:
        """The pool is in use."""
        self._touched.add(pool)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def deletion_topics(self) -> Topics:
        """The topics, opened when the first data is sent to deletion. For any thread but the event loop's."""
        if self._deletion_topics is None:
            topics = open_topics(self.settings, self.data)
            topics.create(self.settings.deletion.topic, self.settings.deletion.partitions)
            self._deletion_topics = topics
        return self._deletion_topics

    # --- what goes on by itself ------------------------------------------------------------------

    async def housekeeping(self) -> None:
        """Deadlines every half second, metrics and logs every second, table entries as set."""
        settings = self.settings.gateway
        next_second = next_access = next_registration = next_resolution = 0.0
        while True:
            now = self.loop.time()
            for connection in list(self.connections):
                connection.check_deadline(now)
            for exchange in list(self.orphans):
                if exchange.deadline < now:
                    exchange.timed_out()
            if now >= next_second:
                self.flush()
                next_second = now + 1
            if now >= next_resolution and self._trusted.names:
                self._in_background(self._resolve_names())
                next_resolution = now + 60
            try:
                if now >= next_access:
                    await self._write_access_times()
                    next_access = now + settings.access_seconds
                if now >= next_registration:
                    await self.register()
                    next_registration = now + settings.registration_seconds * (0.9 + 0.1 * (now % 1))
            except TidegateError as error:
                logger.warning("the tables cannot be written now: %s", error)
            await asyncio.sleep(0.5)

    async def _resolve_names(self) -> None:
        self._trusted = await self.loop.run_in_executor(None, self._trusted.resolved, _resolve)

    def flush(self) -> None:
        """Hands counts to the metrics, lines to the access log, and ends of changes to the file of intents."""
        self.intents.flush()
        requests, self._requests = self._requests, Counter()
        for (operation, status), count in requests.items():
            metrics.REQUESTS.labels(operation, f"{status}xx").inc(count)
        failures, self._auth_failures = self._auth_failures, Counter()
        for code, count in failures.items():
            metrics.AUTH_FAILURES.labels(code).inc(count)
        metrics.BYTES_IN.inc(self._bytes_in)
        metrics.BYTES_OUT.inc(self._bytes_out)
        self._bytes_in = self._bytes_out = 0
        metrics.CONNECTIONS.set(len(self.connections))
        self._seconds.flush()
        self._access_log.flush()

    async def _write_access_times(self) -> None:
        """A pool counts as used while a request runs, however long it takes."""
        pools, self._touched = self._touched, set()
        for connection in self.connections:
            exchange = connection.exchange
            if exchange is not None and exchange.admission is not None:
                pools.add(exchange.admission.pool.pool.name)
        if pools:
            await self.loop.run_in_executor(None, self._put_access_times, pools, time.time())

    def _put_access_times(self, pools: set[str], now: float) -> None:
        for pool in pools:
            self.tables.put(LAST_ACCESS + pool, f"{now:.3f}")

    async def register(self) -> None:
        entry = GatewayEntry(self._entry.host, self._entry.port, self._entry.pid, self._entry.started_at, time.time())
        life = self.settings.gateway.registration_seconds * 3
        await self.loop.run_in_executor(
            None, lambda: self.tables.put(self._registration, entry.to_json(), expires_in=life)
        )

    @property
    def _registration(self) -> str:
        return f"{GatewayEntry.PREFIX}{self._entry.host}:{self._entry.port}:{self._entry.pid}"

    async def drain(self) -> None:
        """Lets running requests end, takes no new ones, then leaves nothing unwritten."""
        self.draining = True
        for connection in list(self.connections):
            connection.close_if_idle()
        deadline = self.loop.time() + self.settings.gateway.drain_seconds
        while (self.connections or self.orphans) and self.loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        for connection in list(self.connections):
            connection.abort()
        await self.log_writer.close()
        await self.key_locks.all_released()
        self.intents.close()
        await self._write_access_times()
        await self.loop.run_in_executor(None, self.tables.delete, self._registration)
        self.flush()


def _resolve(name: str) -> list[str]:
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(name, None)]
    except OSError as error:
        logger.warning("the trusted host %s cannot be resolved now: %s", name, error)
        raise Unavailable(str(error)) from None
