"""The load generator: prepared requests over raw sockets and one epoll loop.

It is meant to cost little, so that what is measured is the target. It knows nothing of S3:
requests come signed, and an answer counts as good when its status is 2xx. One call of `drive`
is one closed-loop run; every connection sends its next request when the last one was answered.
"""

from __future__ import annotations

import os
import select
import socket
import time
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from tidegate.backend_address import is_socket, open_socket

RECEIVE_BYTES = 1 << 20
SILENCE_SECONDS = 30.0


def connect(host: str, port: int, timeout: float) -> socket.socket:
    """A host that is a path is a Unix socket."""
    if is_socket(host):
        opened = open_socket(host)
        opened.settimeout(timeout)
        return opened
    opened = socket.create_connection((host, port), timeout=timeout)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


@dataclass(frozen=True, slots=True)
class Job:
    """`requests` are used in turn. With `body_file` each of them is a head, and the file's bytes follow it.
    The run ends after `seconds`, or after `limit` requests where that is not 0."""

    host: str
    port: int
    requests: list[bytes]
    connections: int
    seconds: float
    limit: int = 0
    body_file: str = ""


@dataclass(slots=True)
class Outcome:
    """`answered` are the places, among the job's requests, of those that have a latency."""

    requests: int = 0
    bytes_moved: int = 0
    seconds: float = 0.0
    latencies: array[float] = field(default_factory=lambda: array("d"))
    answered: array[int] = field(default_factory=lambda: array("L"))
    failures: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Connection:
    sock: socket.socket
    started: float = 0.0
    number: int = 0
    is_blocked: bool = False
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    body_offset: int = 0
    body_left: int = 0
    head: bytearray = field(default_factory=bytearray)
    status: int = 0
    content_left: int = -1  # -1 while the head of the answer is not complete


def drive(job: Job) -> Outcome:
    body = Path(job.body_file).open("rb") if job.body_file else None  # noqa: SIM115 - closed below
    try:
        return _Run(job, body).to_the_end()
    finally:
        if body:
            body.close()


class _Run:
    def __init__(self, job: Job, body: BinaryIO | None) -> None:
        self.job = job
        self.body = body
        self.body_size = os.fstat(body.fileno()).st_size if body else 0
        self.outcome = Outcome()
        self.epoll = select.epoll()
        self.connections: dict[int, _Connection] = {}
        self.buffer = bytearray(RECEIVE_BYTES)
        self.begun = 0
        self.stop_at = 0.0

    def to_the_end(self) -> Outcome:
        for _ in range(self.job.connections):
            self._connect()
        first = time.perf_counter()
        self.stop_at = first + self.job.seconds
        for connection in list(self.connections.values()):
            self._begin(connection, first)
        while self.connections:
            events = self.epoll.poll(SILENCE_SECONDS)
            if not events:
                self.outcome.failures["silence"] += len(self.connections)
                break
            for number, mask in events:
                self._turn(self.connections[number], mask)
        self.outcome.seconds = time.perf_counter() - first
        for connection in list(self.connections.values()):
            self._close(connection)
        self.epoll.close()
        return self.outcome

    def _connect(self) -> _Connection:
        sock = connect(self.job.host, self.job.port, timeout=10)
        sock.setblocking(False)
        connection = _Connection(sock)
        self.connections[sock.fileno()] = connection
        self.epoll.register(sock.fileno(), select.EPOLLIN)
        return connection

    def _close(self, connection: _Connection) -> None:
        self.epoll.unregister(connection.sock.fileno())
        del self.connections[connection.sock.fileno()]
        connection.sock.close()

    def _begin(self, connection: _Connection, now: float) -> None:
        """Sends the next request, or closes the connection when there is no more to do."""
        if now >= self.stop_at or (self.job.limit and self.begun >= self.job.limit):
            self._close(connection)
            return
        connection.started = now
        connection.number = self.begun % len(self.job.requests)
        connection.unsent = memoryview(self.job.requests[connection.number])
        connection.body_offset, connection.body_left = 0, self.body_size
        connection.head.clear()
        connection.content_left = -1
        self.begun += 1
        self._send(connection)

    def _send(self, connection: _Connection) -> None:
        try:
            while connection.unsent:
                connection.unsent = connection.unsent[connection.sock.send(connection.unsent) :]
            while connection.body_left and self.body:
                sent = os.sendfile(
                    connection.sock.fileno(), self.body.fileno(), connection.body_offset, connection.body_left
                )
                connection.body_offset += sent
                connection.body_left -= sent
        except BlockingIOError:
            connection.is_blocked = True
            self.epoll.modify(connection.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
        except OSError as error:
            self._broken(connection, type(error).__name__)
        else:
            if connection.is_blocked:
                connection.is_blocked = False
                self.epoll.modify(connection.sock.fileno(), select.EPOLLIN)

    def _turn(self, connection: _Connection, mask: int) -> None:
        if mask & select.EPOLLOUT:
            self._send(connection)
            if connection.sock.fileno() not in self.connections:
                return
        if mask & ~select.EPOLLOUT:
            self._receive(connection)

    def _receive(self, connection: _Connection) -> None:
        try:
            count = connection.sock.recv_into(self.buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self._broken(connection, type(error).__name__)
            return
        if not count:
            self._broken(connection, "closed")
            return
        if connection.content_left < 0:
            connection.head += memoryview(self.buffer)[:count]
            end = connection.head.find(b"\r\n\r\n")
            if end < 0:
                return
            connection.status = int(connection.head[9:12])
            is_head = self.job.requests[connection.number].startswith(b"HEAD ")
            connection.content_left = 0 if is_head else _content_length(connection.head[:end])
            count = len(connection.head) - end - 4
        connection.content_left -= count
        self.outcome.bytes_moved += count
        if connection.content_left <= 0:
            self._answered(connection)

    def _answered(self, connection: _Connection) -> None:
        now = time.perf_counter()
        if 200 <= connection.status < 300:
            self.outcome.requests += 1
            self.outcome.latencies.append(now - connection.started)
            self.outcome.answered.append(connection.number)
            self.outcome.bytes_moved += self.body_size
        else:
            self.outcome.failures[str(connection.status)] += 1
        self._begin(connection, now)

    def _broken(self, connection: _Connection, why: str) -> None:
        self.outcome.failures[why] += 1
        self._close(connection)
        self._begin(self._connect(), time.perf_counter())


def _content_length(head: bytearray) -> int:
    at = head.lower().find(b"\r\ncontent-length:")
    return int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
