"""A gateway's life: pools woken on demand, requests that end before it does, and what it writes down."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from held_log import held_log
from places import Place
from raw_http import Wire, request, request_head, until
from running_service import RunningService

from tidegate.assembly import open_tables
from tidegate.core.records import GatewayEntry
from tidegate.core.sigv4 import UNSIGNED_PAYLOAD
from tidegate.settings import restore

MIB = 1 << 20


def entries(service: RunningService, prefix: str) -> dict[str, str]:
    settings = restore((service.data / "run" / "settings.json").read_text())
    with closing(open_tables(settings, service.data)) as tables:
        return dict(tables.scan(prefix))


def backends(service: RunningService, pool: str) -> list[int]:
    """Processes that work in the pool's directory."""
    directory = service.data / "pools" / pool
    return [pid for pid in service.processes() if Path(f"/proc/{pid}/cwd").resolve() == directory]


# --- waking --------------------------------------------------------------------------------------


def test_ten_first_requests_at_once_start_one_backend(service: RunningService) -> None:
    key = service.create_pool("woken-at-once")
    service.cli("bucket", "create", "woken-at-once", "--pool", key.pool)
    assert backends(service, key.pool) == []
    together = threading.Barrier(10)

    def first_request(number: int) -> int:
        with Wire(service.s3_url) as wire:
            together.wait()
            return wire.ask(request(service.s3_url, key, "PUT", f"/woken-at-once/{number}", b"x")).status

    with ThreadPoolExecutor(10) as threads:
        assert list(threads.map(first_request, range(10))) == [200] * 10
    assert len(backends(service, key.pool)) == 1
    listed = service.s3(key).list_objects_v2(Bucket="woken-at-once")
    assert listed["KeyCount"] == 10


@pytest.mark.parametrize("size", [100, 3 * MIB])
def test_who_has_sent_everything_and_stops_sending_waits_for_a_pool_that_wakes(
    service: RunningService, size: int
) -> None:
    key = service.create_pool(f"woken-late-{size}")
    bucket = f"woken-late-{size}"
    service.cli("bucket", "create", bucket, "--pool", key.pool)
    with Wire(service.s3_url) as wire:
        wire.send(request(service.s3_url, key, "PUT", f"/{bucket}/k", b"x" * size))
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.answer().status == 200
    assert service.s3(key).head_object(Bucket=bucket, Key="k")["ContentLength"] == size


def test_a_refused_request_wakes_nobody(service: RunningService) -> None:
    key = service.create_pool("left-asleep")
    service.cli("bucket", "create", "left-asleep", "--pool", key.pool)
    with Wire(service.s3_url) as wire:
        assert wire.ask(request(service.s3_url, None, "GET", "/left-asleep/k")).status == 403
        assert wire.ask(request(service.s3_url, key, "GET", "/left-asleep/k?torrent=")).status == 501
        assert wire.ask(request(service.s3_url, key, "GET", "/")).status == 200
    assert entries(service, "ma:left-asleep") == {}


def test_a_pool_that_is_offline_is_refused(service: RunningService) -> None:
    key = service.create_pool("taken-offline")
    service.cli("bucket", "create", "taken-offline", "--pool", key.pool)
    with service.api() as api:
        assert api.patch(f"/api/v1/pools/{key.pool}", json={"online": False}).status_code == 200
    with Wire(service.s3_url) as wire:
        answer = wire.ask(request(service.s3_url, key, "GET", "/taken-offline"))
        assert (answer.status, answer.code) == (403, "AccessDenied")
        assert b"offline" in answer.body


# --- what it writes down -------------------------------------------------------------------------


def test_the_time_of_the_last_access_is_written(tight: Place) -> None:
    before = time.time()
    assert tight.ask("GET", tight.path()).status == 200
    until(lambda: float(entries(tight.service, "ts:tight").get("ts:tight", "0")) >= before - 0.5)


def test_every_gateway_stands_in_the_tables_while_it_runs(make_service) -> None:
    service = make_service()
    found = [GatewayEntry.from_json(text) for text in entries(service, "mx:").values()]
    port = int(service.s3_url.rpartition(":")[2])
    assert len(found) == 2
    assert {(entry.host, entry.port) for entry in found} == {("127.0.0.1", port)}
    assert all(Path(f"/proc/{entry.pid}").exists() for entry in found)
    assert service.stop() == 0
    assert entries(service, "mx:") == {}


def access_lines(service: RunningService, mark: str, count: int) -> list[str]:
    file = service.data / "log" / "access.log"

    def found() -> list[str]:
        return [line for line in file.read_text().splitlines() if mark in line]

    until(lambda: len(found()) >= count)
    return found()


def test_the_access_log_has_a_line_per_request_in_combined_format(place: Place) -> None:
    key = place.fresh("logged")
    with place.wire() as wire:
        agent = {"User-Agent": 'odd "agent" \\ \xe9', "Referer": "http://there"}
        wire.ask(place.request("PUT", place.path(key), b"12345", headers=agent))
        wire.ask(place.request("GET", place.path(key)))
        wire.ask(place.request("HEAD", place.path(key)), to_head=True)
        wire.ask(request(place.url, None, "GET", place.path(key)))
    lines = access_lines(place.service, key, 4)
    moment = r"\[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\]"
    pattern = re.compile(rf'127\.0\.0\.1 - (\S+) {moment} "(\w+) (\S+) HTTP/1\.1" (\d{{3}}) (\d+) "(.*)" "(.*)"')
    parts = [match.groups() for line in lines if (match := pattern.fullmatch(line))]
    user, path = place.key.access_key, place.path(key)
    assert parts[0] == (user, "PUT", path, "200", "0", "http://there", r"odd \"agent\" \\ \xc3\xa9")
    assert parts[1] == (user, "GET", path, "200", "5", "-", "-")
    assert parts[2] == (user, "HEAD", path, "200", "0", "-", "-")
    assert parts[3][:4] == ("-", "GET", path, "403")


def test_requests_are_counted(service: RunningService, place: Place) -> None:
    def count(status: str) -> float:
        page = httpx.get(f"{service.api_url}/metrics").text
        lines = re.findall(
            rf'^tidegate_\w*requests_total{{operation="GetObject",status="{status}"}} (\S+)$', page, re.M
        )
        return float(lines[0]) if lines else 0.0

    before = count("4xx")
    assert place.ask("GET", place.path("no-such-key")).status == 404
    until(lambda: count("4xx") >= before + 1)


# --- the log is not there ------------------------------------------------------------------------


def test_a_change_that_the_log_does_not_take_is_not_acknowledged(make_service) -> None:
    service = make_service()
    place = Place(service, "unlogged", "unlogged-bucket")
    with held_log(service), place.wire(timeout=90) as wire:
        answer = wire.ask(place.request("PUT", place.path("k"), b"x"))
        assert (answer.status, answer.code) == (503, "ServiceUnavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert wire.ask(place.request("GET", place.path())).status == 200, "reading needs no log"
        assert wire.ask(place.request("PUT", place.path("next"), b"x")).status == 503
        assert wire.ask(place.request("GET", place.path("next"))).status == 404, "what cannot be logged is not made"
    until(lambda: place.ask("PUT", place.path("k"), b"y").status == 200)


# --- the end -------------------------------------------------------------------------------------


def test_a_gateway_told_to_stop_ends_what_runs_and_takes_nothing_new(make_service) -> None:
    service = make_service(gateway__processes=1, gateway__drain_seconds=20)
    place = Place(service, "drained", "drained-bucket")
    (pid,) = service.gateway_pids()
    key, size = "slow", 2 * MIB
    asks_first = {"Expect": "100-continue"}
    head = request_head(
        place.url, place.key, "PUT", place.path(key), headers=asks_first, payload=UNSIGNED_PAYLOAD, length=size
    )
    with place.wire() as running, place.wire() as idle:
        assert idle.ask(place.request("GET", place.path())).status == 200
        running.send(head)
        assert running.head().status == 100
        running.send(b"x" * MIB)
        os.kill(pid, signal.SIGTERM)
        assert idle.closed, "an idle connection is closed at once"
        running.send(b"x" * MIB)
        answer = running.answer()
        assert (answer.status, answer.headers.get("connection")) == (200, "close")
        assert running.closed
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert place.stored(key) == b"x" * size, "another gateway has taken the door over"


def test_a_gateway_that_is_killed_in_the_middle_of_an_upload_leaves_the_old_object(make_service) -> None:
    service = make_service(gateway__processes=1)
    place = Place(service, "killed", "killed-bucket")
    place.s3.put_object(Bucket=place.bucket, Key="k", Body=b"old")
    (pid,) = service.gateway_pids()
    head = request_head(place.url, place.key, "PUT", place.path("k"), payload=UNSIGNED_PAYLOAD, length=4 * MIB)
    with place.wire() as wire:
        wire.send(head)
        time.sleep(0.3)  # the head is at the store, the body is not
        os.kill(pid, signal.SIGKILL)
        assert wire.closed
    until(lambda: service.gateway_pids() - {pid} != set())
    assert place.stored("k") == b"old"


# --- TLS -----------------------------------------------------------------------------------------


def test_everything_works_over_tls_too(make_service, certificate: tuple[Path, Path]) -> None:
    service = make_service(
        gateway__tls_certificate=str(certificate[0]), gateway__tls_key=str(certificate[1]), gateway__stall_seconds=2
    )
    assert service.s3_url.startswith("https://")
    context = ssl.create_default_context(cafile=str(certificate[0]))
    key = service.create_pool("encrypted")
    body = bytes(range(256)) * 4096 * 8
    with Wire(service.s3_url, tls=context) as wire:

        def ask(method: str, path: str, body: bytes = b"") -> bytes:
            wire.send(request(service.s3_url, key, method, path, body))
            answer = wire.answer()
            assert answer.status == 200, answer
            return answer.body

        ask("PUT", "/encrypted-bucket")
        ask("PUT", "/encrypted-bucket/large", body)
        assert ask("GET", "/encrypted-bucket/large") == body
        ask("PUT", "/encrypted-bucket/small", b"small")
        assert ask("GET", "/encrypted-bucket/small") == b"small"
    with Wire(service.s3_url.replace("https", "http")) as plain:
        plain.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert not plain.rest().startswith(b"HTTP/1.1 200")
    with Wire(service.s3_url, tls=context) as slow:
        head = request_head(
            service.s3_url, key, "PUT", "/encrypted-bucket/stalled", payload=UNSIGNED_PAYLOAD, length=MIB
        )
        assert slow.ask(head + b"x").code == "RequestTimeout"
