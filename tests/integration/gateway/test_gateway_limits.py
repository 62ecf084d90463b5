"""What the gateway does not put up with, and how little it needs while it waits."""

from __future__ import annotations

import resource
import socket
import threading
import time
from pathlib import Path

import pytest
from places import Place
from raw_http import request_head, until

from tidegate.core.sigv4 import UNSIGNED_PAYLOAD

MIB = 1 << 20


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def gateway_pid(place: Place) -> int:
    (pid,) = place.service.gateway_pids()
    return pid


# --- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half a head"])
def test_a_head_that_does_not_come_ends_the_connection(tight: Place, sent: bytes) -> None:
    with tight.wire() as wire:
        wire.send(sent)
        assert wire.closed


def test_a_head_that_trickles_ends_the_connection(tight: Place) -> None:
    with tight.wire() as wire:
        stop = threading.Event()

        def trickle() -> None:
            try:
                wire.send(b"GET / HTTP/1.1\r\nX: ")
                while not stop.wait(0.1):
                    wire.send(b"y")
            except OSError:
                stop.set()  # the gateway has closed the connection

        sender = threading.Thread(target=trickle)
        sender.start()
        assert wire.closed
        stop.set()
        sender.join()


def test_an_idle_connection_is_closed(tight: Place) -> None:
    with tight.wire() as wire:
        assert wire.ask(tight.request("GET", tight.path())).status == 200
        assert wire.closed


@pytest.mark.parametrize("size", [1000, 200_000, 8 * MIB], ids=["small", "streamed", "spliced"])
def test_a_body_that_stops_ends_the_request(tight: Place, size: int) -> None:
    key = tight.fresh()
    head = request_head(tight.url, tight.key, "PUT", tight.path(key), payload=UNSIGNED_PAYLOAD, length=size)
    with tight.wire() as wire:
        answer = wire.ask(head + b"x" * (size // 2))
        assert (answer.status, answer.code) == (400, "RequestTimeout")
        assert answer.headers["connection"] == "close"
        assert wire.closed
    assert tight.stored(key) is None


def test_a_chunked_body_that_stops_ends_the_request(tight: Place) -> None:
    key = tight.fresh()
    headers = {"Transfer-Encoding": "chunked"}
    with tight.wire() as wire:
        wire.send(tight.request("PUT", tight.path(key), headers=headers, payload=UNSIGNED_PAYLOAD, length=-1))
        assert wire.ask(b"5\r\nhello\r\n").code == "RequestTimeout"
    assert tight.stored(key) is None


def test_a_body_that_moves_slowly_is_not_taken_for_one_that_stops(tight: Place) -> None:
    key, size = tight.fresh(), 700_000
    head = request_head(tight.url, tight.key, "PUT", tight.path(key), payload=UNSIGNED_PAYLOAD, length=size)
    with tight.wire() as wire:
        wire.send(head)
        for _ in range(10):  # eight seconds in all, far less in each four than would be worth waking up for
            wire.send(b"x" * 1000)
            time.sleep(0.8)
        assert wire.ask(b"x" * (size - 10_000)).status == 200
    assert tight.stored(key) == b"x" * size


def test_a_reader_that_stops_is_cut_off(tight: Place) -> None:
    tight.s3.put_object(Bucket=tight.bucket, Key="for-sleepers", Body=bytes(32 * MIB))
    with tight.wire() as wire:
        wire.send(tight.request("GET", tight.path("for-sleepers")))
        assert wire.head().status == 200
        log = tight.service.data / "log" / "access.log"
        until(lambda: any("for-sleepers" in line and "GET" in line for line in log.read_text().splitlines()))
        with pytest.raises(ConnectionError):
            wire.read(32 * MIB)


def test_a_reader_that_takes_little_at_a_time_is_not_cut_off(tight: Place) -> None:
    tight.s3.put_object(Bucket=tight.bucket, Key="for-slow-readers", Body=bytes(24 * MIB))
    with tight.wire() as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        wire.send(tight.request("GET", tight.path("for-slow-readers")))
        assert wire.head().status == 200
        for _ in range(24):  # nearly ten seconds, more than twice as long as a stall may last
            wire.read(40_000)
            time.sleep(0.4)
        assert wire.read(24 * MIB - 24 * 40_000) == bytes(24 * MIB - 24 * 40_000)


# --- size ----------------------------------------------------------------------------------------


def padded_head(length: int) -> bytes:
    """A request of exactly that many bytes, its last empty line included."""
    start, end = b"GET / HTTP/1.1\r\nHost: x\r\nX-Padding: ", b"\r\n\r\n"
    return start + b"p" * (length - len(start) - len(end)) + end


def test_a_head_up_to_the_limit_is_read_and_one_byte_more_is_not(tight: Place) -> None:
    limit = 32768 + len(b"\r\n\r\n")
    with tight.wire() as wire:
        assert wire.ask(padded_head(limit)).code == "AccessDenied"
    with tight.wire() as wire:
        answer = wire.ask(padded_head(limit + 1))
        assert (answer.status, answer.code) == (400, "RequestHeaderSectionTooLarge")
        assert wire.closed


def test_a_head_without_end_is_refused_at_the_limit(tight: Place) -> None:
    with tight.wire() as wire:
        answer = wire.ask(b"GET / HTTP/1.1\r\nX-Endless: " + b"y" * 40_000)
        assert answer.code == "RequestHeaderSectionTooLarge"


def test_xml_beyond_its_limit_is_refused_without_being_read(tight: Place) -> None:
    head = request_head(
        tight.url, tight.key, "POST", tight.path("", "") + "?delete=", payload=UNSIGNED_PAYLOAD, length=64 * MIB
    )
    with tight.wire() as wire:
        answer = wire.ask(head)
        assert (answer.status, answer.code) == (400, "MaxMessageLengthExceeded")
        assert wire.closed


# --- memory --------------------------------------------------------------------------------------


def test_two_thousand_idle_connections_cost_little_and_the_next_request_is_served(place: Place) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    pids = place.service.gateway_pids()
    before = sum(map(resident_bytes, pids))
    with place.wire() as wire:
        address = wire.socket.getpeername()
    idle = [socket.create_connection(address) for _ in range(2000)]
    try:
        assert place.ask("GET", place.path()).status == 200
        assert sum(map(resident_bytes, pids)) - before < 60 * MIB
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_large_bodies_stream_both_ways_in_little_memory_while_the_client_is_slow(tight: Place) -> None:
    pid, key, size = gateway_pid(tight), tight.fresh(), 64 * MIB
    block = bytes(range(256)) * 4096
    tight.s3.put_object(Bucket=tight.bucket, Key=tight.fresh(), Body=block)
    before = resident_bytes(pid)
    most = before
    head = request_head(tight.url, tight.key, "PUT", tight.path(key), payload=UNSIGNED_PAYLOAD, length=size)
    with tight.wire() as wire:
        wire.send(head)
        for number in range(size // MIB):
            wire.send(block)
            if number % 8 == 0:
                time.sleep(0.02)
                most = max(most, resident_bytes(pid))
        assert wire.answer().status == 200
    with tight.wire() as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        wire.send(tight.request("GET", tight.path(key)))
        assert wire.head().status == 200
        for number in range(size // MIB):
            assert wire.read(MIB) == block
            if number % 8 == 0:
                time.sleep(0.02)
                most = max(most, resident_bytes(pid))
    assert most - before < 16 * MIB


def test_a_chunked_body_streams_in_little_memory_too(tight: Place) -> None:
    pid, key = gateway_pid(tight), tight.fresh()
    before = resident_bytes(pid)
    headers = {"Transfer-Encoding": "chunked"}
    with tight.wire() as wire:
        wire.send(tight.request("PUT", tight.path(key), headers=headers, payload=UNSIGNED_PAYLOAD, length=-1))
        most = before
        for _ in range(48):
            wire.send(b"%x\r\n%b\r\n" % (MIB, bytes(MIB)))
            most = max(most, resident_bytes(pid))
        assert wire.ask(b"0\r\n\r\n").status == 200
    assert most - before < 16 * MIB
