"""The measurements: alternating rounds over the targets, so that drift of the machine meets all of them alike."""

from __future__ import annotations

import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.pool import Pool

from bench.gateway.accounting import cpu_seconds, memory_kib, processes_of
from bench.gateway.load import Job, Outcome, drive
from bench.gateway.requests import Target
from bench.gateway.servers import Tidegate

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Way:
    """A target with the processes whose CPU time counts: `pids` are the proxy's own, `more_pids` the rest of its
    service. Direct has none."""

    target: Target
    pids: tuple[int, ...] = ()
    more_pids: tuple[int, ...] = ()


def through(service: Tidegate, name: str) -> Way:
    """The way through a running Tidegate."""
    processes = processes_of(service.data)
    target = Target(name, service.host, service.port, service.access_key, service.secret_key)
    return Way(target, processes.gateways, processes.others)


@dataclass(slots=True)
class Series:
    """What the rounds of one way and one kind of request gave."""

    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    cpu_with_rest: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    failures: int = 0

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.latencies)
        return {
            "rate": statistics.median(self.rates),
            "cpu": statistics.median(self.cpu),
            "cpu_with_rest": statistics.median(self.cpu_with_rest),
            "p50": ordered[len(ordered) // 2] if ordered else 0.0,
            "p99": ordered[len(ordered) * 99 // 100] if ordered else 0.0,
            "failures": self.failures,
        }


class Driver:
    """Runs jobs in a process of their own, apart from the interpreter that signs and counts."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def for_seconds(self, way: Way, requests: list[bytes], *, connections: int, seconds: float, into: Series) -> None:
        self.run(way, Job(way.target.host, way.target.port, requests, connections, seconds), into)

    def run(self, way: Way, job: Job, into: Series) -> Outcome:
        """Rates are requests per second; CPU is in microseconds per request."""
        outcome, own, rest = self._run(way, job)
        into.rates.append(outcome.requests / outcome.seconds)
        into.cpu.append(own / max(outcome.requests, 1) * 1e6)
        into.cpu_with_rest.append((own + rest) / max(outcome.requests, 1) * 1e6)
        into.latencies.extend(outcome.latencies)
        into.failures += sum(outcome.failures.values())
        return outcome

    def each_once(
        self, way: Way, requests: list[bytes], *, connections: int, body_file: str = "", into: Series
    ) -> None:
        """Rates are MiB per second; CPU is in milliseconds per MiB."""
        job = Job(way.target.host, way.target.port, requests, connections, 600, len(requests), body_file)
        outcome, own, rest = self._run(way, job)
        moved = max(outcome.bytes_moved / MIB, 1)
        into.rates.append(moved / outcome.seconds)
        into.cpu.append(own / moved * 1e3)
        into.cpu_with_rest.append((own + rest) / moved * 1e3)
        into.latencies.extend(outcome.latencies)
        into.failures += sum(outcome.failures.values())

    def _run(self, way: Way, job: Job) -> tuple[Outcome, float, float]:
        own, rest = cpu_seconds(way.pids), cpu_seconds(way.more_pids)
        outcome = self._pool.apply(drive, (job,))
        own, rest = cpu_seconds(way.pids) - own, cpu_seconds(way.more_pids) - rest
        if outcome.failures:
            print(f"{way.target.name}: failures {dict(outcome.failures)}", file=sys.stderr)
        return outcome, own, rest


def rounds(ways: Iterable[Way], count: int, one: Callable[[Way, Series], None]) -> dict[str, Series]:
    """Each round goes over all ways, in turning order."""
    order = list(ways)
    result = {way.target.name: Series() for way in order}
    for number in range(count):
        turn = number % len(order)
        for way in order[turn:] + order[:turn]:
            one(way, result[way.target.name])
    return result


def idle_memory(way: Way, head: bytes, connections: int) -> dict[str, int]:
    """Memory of the way's own processes before and with so many connections, each of which was answered once."""
    before = memory_kib(way.pids)
    held: list[socket.socket] = []
    try:
        for _ in range(connections):
            sock = way.target.connect(timeout=30)
            held.append(sock)
            sock.sendall(head)
            if not sock.recv(65536).startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{way.target.name} refused connection {len(held)}")
        time.sleep(0.5)
        during = memory_kib(way.pids)
    finally:
        for sock in held:
            sock.close()
    return {
        "rss_before_kib": before["rss"],
        "rss_kib": during["rss"],
        "pss_before_kib": before["pss"],
        "pss_kib": during["pss"],
        "bytes_per_connection": (during["pss"] - before["pss"]) * 1024 // connections,
    }
