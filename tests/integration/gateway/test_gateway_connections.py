"""More connections than a gateway has descriptors for: those that do nothing make room, and nobody ends."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from places import Place
from raw_http import Wire, request, request_head, until
from running_service import RunningService

DESCRIPTORS = 400
MIB = 1 << 20


@dataclass
class NarrowService(RunningService):
    """A service whose processes may open few files."""

    def command_prefix(self) -> list[str]:
        return ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, _clean_environment: None) -> Iterator[Place]:
    service = NarrowService(tmp_path_factory.mktemp("narrow") / "data", {"gateway.processes": 1})
    try:
        yield Place(service.start(), "narrow", "narrow-bucket")
    finally:
        service.end()


@contextmanager
def connections(place: Place, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many, of which each has sent this, unless it was refused before it could."""
    with place.wire() as wire:
        address = wire.socket.getpeername()
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            opened.append(socket.create_connection(address, timeout=30))
            with suppress(ConnectionError):
                opened[-1].sendall(sent)
        yield opened
    finally:
        for one in opened:
            one.close()


def is_ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def is_read(place: Place, key: str, body: bytes) -> bool:
    """No new connection is let in before the gateway has noticed the end of one."""
    try:
        return place.ask("GET", place.path(key)).body == body
    except ConnectionError:
        return False


def refused(place: Place, reason: str) -> float:
    text = httpx.get(f"{place.service.api_url}/metrics").text
    name = f'tidegate_refused_connections_total{{reason="{reason}"}}'
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


@pytest.mark.parametrize("sent", [b"", b"GET /bucket/key HTTP/1.1\r\nHost: localhost\r\n"], ids=["idle", "half a head"])
def test_idle_connections_beyond_the_limit_make_room_for_new_ones(narrow: Place, sent: bytes) -> None:
    gateways = narrow.service.gateway_pids()
    before = refused(narrow, "made-room")
    with connections(narrow, 2 * DESCRIPTORS, sent) as opened:
        assert narrow.ask("GET", narrow.path()).status == 200
        assert narrow.ask("PUT", narrow.path(narrow.fresh()), b"contents").status == 200
        (pid,) = gateways
        assert len(os.listdir(f"/proc/{pid}/fd")) < DESCRIPTORS - 64  # noqa: PTH208
        until(lambda: is_ended(opened[0]), what="the oldest is ended first")
        assert not is_ended(opened[-1])
    until(lambda: refused(narrow, "made-room") > before, what="those that made room are counted")
    assert narrow.service.gateway_pids() == gateways


def test_connections_at_work_are_left_alone_and_new_ones_are_refused(narrow: Place) -> None:
    gateways = narrow.service.gateway_pids()
    key, body = narrow.fresh(), b"x" * 1000
    head = request_head(narrow.url, narrow.key, "PUT", narrow.path(key), payload="UNSIGNED-PAYLOAD", length=len(body))
    before = refused(narrow, "too-many")
    with connections(narrow, 2 * DESCRIPTORS, head) as opened:
        # Before the first has its answer and may be idle, in whose place the last one could come.
        until(lambda: is_ended(opened[-1]), what="the last one is refused")
        opened[0].setblocking(True)
        opened[0].sendall(body)
        assert opened[0].recv(12) == b"HTTP/1.1 200"
    until(lambda: refused(narrow, "too-many") > before, what="those that were refused are counted")
    until(lambda: is_read(narrow, key, body), what="it is served again")
    assert narrow.service.gateway_pids() == gateways


def test_large_bodies_on_too_few_descriptors_end_cleanly(narrow: Place) -> None:
    """Each takes more descriptors than its own connection; some may be refused, and none is stored in part."""
    gateways, body = narrow.service.gateway_pids(), os.urandom(MIB)

    def put(number: int) -> tuple[str, int]:
        key = f"large-{number}"
        sent = request(narrow.url, narrow.key, "PUT", narrow.path(key), body, payload="UNSIGNED-PAYLOAD")
        try:
            with Wire(narrow.url) as wire:
                wire.send(sent[:-10])
                time.sleep(1)
                return key, wire.ask(sent[-10:]).status
        except OSError:
            return key, 0

    with ThreadPoolExecutor(80) as threads:
        answers = dict(threads.map(put, range(80)))
    assert set(answers.values()) <= {200, 503, 0}
    assert 200 in answers.values()
    stored = {key: narrow.stored(key) for key in answers}
    assert all(stored[key] == body for key, status in answers.items() if status == 200)
    assert all(found in (None, body) for found in stored.values())
    assert narrow.service.gateway_pids() == gateways


def test_as_many_as_are_set_are_let_in(tmp_path: Path) -> None:
    service = RunningService(tmp_path / "data", {"gateway.processes": 1, "gateway.max_connections": 10})
    try:
        place = Place(service.start(), "few", "few-bucket")
        with connections(place, 30) as opened:
            assert place.ask("GET", place.path()).status == 200
            until(lambda: sum(map(is_ended, opened)) >= 20, what="those beyond ten are ended")
    finally:
        service.end()


def test_handshakes_that_do_not_come_to_their_end_make_room(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    service = RunningService(
        tmp_path / "data",
        {
            "gateway.processes": 1,
            "gateway.max_connections": 10,
            "gateway.tls_certificate": str(certificate[0]),
            "gateway.tls_key": str(certificate[1]),
        },
    )
    context = ssl.create_default_context(cafile=str(certificate[0]))
    try:
        url = service.start().s3_url
        address = (url.split("//")[1].split(":")[0], int(url.rpartition(":")[2]))
        opened = [socket.create_connection(address) for _ in range(30)]
        assert httpx.get(url, verify=context).status_code == 403
        until(lambda: sum(map(is_ended, opened)) >= 20, what="those beyond ten are ended")
        for one in opened:
            one.close()
    finally:
        service.end()
