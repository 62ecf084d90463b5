"""Sends odd requests through a gateway, several lanes at once, and compares what each meant on its two sides.

A finding names its seed; `DIFFERENTIAL_SEED=SEED DIFFERENTIAL_REQUESTS=1` sends that request again.
"""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from differential_check import Checker, Finding, Logged, Reply, Trial
from fuzzed_gateway import CREDENTIAL, FuzzedGateway, Lane
from gateway_reading import admitted
from odd_examples import examples
from odd_requests import Maker
from odd_world import DIRECT_DOMAIN, DOMAIN, Sent

LANES = 8
_ROUND = 2000  # after so many requests the log is read
_PATIENCE = 60.0
_EXAMPLES = 3


@dataclass(slots=True)
class Findings:
    """Counts by kind, with a few examples of each: the seed, the request, and both meanings."""

    trials: int = 0
    arrived: int = 0
    admitted: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    ways: Counter[tuple[str, bool]] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, trial: Trial, found: list[Finding]) -> None:
        self.trials += 1
        self.arrived += bool(trial.arrivals)
        self.admitted += trial.admitted is not None
        self.statuses[trial.reply.status // 100 * 100] += 1
        self.ways[(trial.sent.recipe[1], bool(trial.arrivals))] += 1
        for kind, texts in _grouped(found).items():
            self.kinds[kind] += 1
            examples = self.examples.setdefault(kind, [])
            if len(examples) < _EXAMPLES:
                examples.append(_told(trial, kind, texts))

    def summary(self) -> str:
        lines = [
            f"{self.trials} requests, {self.admitted} with a meaning, {self.arrived} arrived at a store",
            "answers: " + ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items())),
            "arrived by way: "
            + ", ".join(f"{way}: {self.ways[way, True]}" for way in sorted({way for way, _ in self.ways})),
            "findings: " + (", ".join(f"{kind}: {count}" for kind, count in self.kinds.most_common()) or "none"),
        ]
        return "\n".join(lines)

    def told(self) -> str:
        return "\n\n".join(example for kind in sorted(self.examples) for example in self.examples[kind])


def _grouped(found: list[Finding]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for finding in found:
        grouped.setdefault(finding.kind, []).append(finding.text)
    return grouped


def _told(trial: Trial, kind: str, texts: list[str]) -> str:
    sent = trial.sent
    lines = [
        f"=== {kind}: {'; '.join(sorted(set(texts)))}",
        f"seed {sent.seed} ({', '.join(sent.recipe)}), answered with {trial.reply.status}",
        f"sent:     {shortened(sent.request.raw())}",
        f"admitted: {trial.admitted}",
    ]
    for arrival in trial.arrivals:
        lines += [f"arrived:  {shortened(arrival.raw())}", f"read as:  {arrival.reading.meaning} at {arrival.pool}"]
    return "\n".join([*lines, *(f"logged:   {event}" for event in trial.events)])


def shortened(raw: bytes) -> str:
    """Without the middle of long runs of one letter, of which some keys consist."""
    return repr(re.sub(rb"([a-z])\1{20,}", rb"\1...\1", raw)[:1500])


@asynccontextmanager
async def opened(data: Path, lanes: int = LANES) -> AsyncIterator[tuple[FuzzedGateway, list[Lane]]]:
    """A gateway with its lanes' stores."""
    found = [Lane(number) for number in range(lanes)]
    for lane in found:
        await lane.open()
    gateway = await asyncio.to_thread(FuzzedGateway, data, found)
    try:
        yield gateway, found
    finally:
        await asyncio.to_thread(gateway.end)
        for lane in found:
            lane.close()


async def compare(data: Path, *, first: int, count: int) -> Findings:
    """The known examples, and `count` requests from the seed `first` on."""
    findings = Findings()
    async with opened(data) as (gateway, lanes):
        senders = [LaneSender(lane, gateway) for lane in lanes]
        await senders[0].send_examples()
        for start in range(first, first + count, _ROUND):
            seeds = range(start, min(start + _ROUND, first + count))
            await asyncio.gather(*(sender.send_all(seeds) for sender in senders))
            events = await asyncio.to_thread(gateway.new_events)
            for sender in senders:
                sender.judge(events, findings)
        for sender in senders:
            sender.close()
    return findings


class LaneSender:
    """Sends on one connection, and keeps what it saw until the log has been read."""

    def __init__(self, lane: Lane, gateway: FuzzedGateway) -> None:
        self._lane = lane
        self._host, _, port = gateway.authority.rpartition(":")
        self._port = int(port)
        self._world = world = lane.world(gateway.authority)
        self._maker = Maker(world)
        self._checker = Checker(world, CREDENTIAL)
        self._connection = Connection(self._host, self._port)
        self._trials: list[Trial] = []
        self._pools = {world.own, world.other}

    async def send_examples(self) -> None:
        for sent in examples(self._world):
            self._trials.append(await self.send(sent))

    async def send_all(self, seeds: range) -> None:
        """A seed belongs to one lane, so that it gives the same request whenever it is sent."""
        for seed in seeds:
            if seed % LANES == self._lane.number:
                self._trials.append(await self.send(self._maker.make(seed)))

    async def send(self, sent: Sent) -> Trial:
        self._lane.arrivals.clear()
        started = time.time_ns()
        reply = await self._connection.ask(sent.request.raw(), is_head=sent.request.method == b"HEAD")
        meaning = admitted(sent.head(), domains=(DOMAIN,), direct_domain=DIRECT_DOMAIN)
        if meaning is not None and meaning.operation == "PostObject":
            meaning = meaning._replace(key=sent.form_key)
        return Trial(sent, meaning, list(self._lane.arrivals), reply, started, time.time_ns())

    def judge(self, events: list[tuple[int, Logged]], findings: Findings) -> None:
        """Hands each request its events by their times: the lane had but one request under way at any time."""
        own = [(when, event) for when, event in events if event.pool in self._pools]
        times = [when for when, _ in own]
        for trial in self._trials:
            first, last = bisect_left(times, trial.started_ns), bisect_right(times, trial.ended_ns)
            trial.events = [event for _, event in own[first:last]]
            findings.add(trial, self._checker.check(trial))
        self._trials.clear()

    def close(self) -> None:
        self._connection.close()


class Connection:
    """A client's connection, opened anew when the gateway has closed it."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, raw: bytes, *, is_head: bool) -> Reply:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection(self._host, self._port, limit=1 << 20)
        reader, writer = self._streams
        try:
            async with asyncio.timeout(_PATIENCE):
                writer.write(raw)
                reply, lives = await _reply(reader, is_head=is_head)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            reply, lives = Reply(0, b"", b""), False
        if not lives:
            self.close()
        return reply

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _reply(reader: asyncio.StreamReader, *, is_head: bool) -> tuple[Reply, bool]:
    """The next final reply, and whether the connection can be used again."""
    status = 100
    while status == 100:
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
    lives = not re.search(rb"(?im)^connection: *close", head)
    if is_head or status in (204, 304):
        return Reply(status, head, b""), lives
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    if length:
        return Reply(status, head, await reader.readexactly(int(length[1]))), lives
    if not re.search(rb"(?im)^transfer-encoding: *chunked", head):
        return Reply(status, head, await reader.read(-1)), False
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return Reply(status, head, body), lives
