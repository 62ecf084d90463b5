"""Generates malformed requests, sends them over sockets and sorts what comes back.

A case follows from its seed and the door alone, so that an offender can be sent again:
`python tests/probe/malformed.py --endpoint HOST:PORT --access-key K --secret-key S --bucket B --first SEED --count 1`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import re
import socket
import struct
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import malformed_bodies
import malformed_heads
import malformed_signatures
from malformed_case import Case, Door
from requests_on_the_wire import Request, Signer

FAMILIES = (*malformed_heads.FAMILIES, *malformed_signatures.FAMILIES, *malformed_bodies.FAMILIES)
GENERATORS: list[Callable[[random.Random, Door], Case]] = [family for family, _ in FAMILIES]
WEIGHTS = [weight for _, weight in FAMILIES]
OFFENCES = ("accepted", "5xx", "hang", "left open", "smuggled", "nonsense")
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # leaves no TIME_WAIT behind, of which 100,000 would use up the ports


def case(seed: int, door: Door) -> Case:
    rng = random.Random(seed)
    return replace(rng.choices(GENERATORS, WEIGHTS)[0](rng, door), seed=seed)


@dataclass(slots=True)
class Tally:
    classes: Counter[str] = field(default_factory=Counter)
    families: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    offenders: list[str] = field(default_factory=list)

    def add(self, case: Case, found: str, answer: str) -> None:
        self.classes[found] += 1
        self.families[case.family][found] += 1
        if found in OFFENCES:
            self.offenders.append(f"seed {case.seed} ({case.family}): {found}, {answer}")

    def summary(self) -> str:
        lines = [", ".join(f"{name}: {count}" for name, count in sorted(self.classes.items()))]
        lines += [f"  {family}: {dict(counts)}" for family, counts in sorted(self.families.items())]
        return "\n".join([*lines, *self.offenders[:50]])


async def probe(door: Door, *, first: int, count: int, parallel: int = 16, deadline: float = 15.0) -> Tally:
    tally = Tally()
    seeds = iter(range(first, first + count))

    async def sender() -> None:
        for seed in seeds:
            one = case(seed, door)
            found, answer = await send(door, one, deadline)
            tally.add(one, found, answer)

    await asyncio.gather(*(sender() for _ in range(parallel)))
    return tally


async def send(door: Door, case: Case, deadline: float) -> tuple[str, str]:
    """The class of what happened, and what was answered."""
    reader, writer = await asyncio.open_connection(door.host, door.port)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    answer = _Answer(case)
    sending = asyncio.create_task(_send_bytes(writer, case))
    try:
        async with asyncio.timeout(deadline):
            while not answer.complete:
                data = await reader.read(65536)
                answer.feed(data)
                if not data:
                    break
    except TimeoutError:
        answer.timed_out = True
    except OSError:
        answer.feed(b"")
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
        writer.close()
    return answer.classified(), answer.brief()


async def _send_bytes(writer: asyncio.StreamWriter, case: Case) -> None:
    """Whatever the server thinks of it half-way, its answer is what counts."""
    with contextlib.suppress(OSError, RuntimeError):
        writer.write(case.raw + case.behind)
        await writer.drain()
        if case.half_close:
            writer.write_eof()


class _Answer:
    """Cuts the received bytes into responses."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.data = bytearray()
        self.statuses: list[int] = []
        self.closed = False
        self.timed_out = False
        self.nonsense = False
        self._at = 0

    @property
    def complete(self) -> bool:
        """Nothing more is to be waited for. Where the connection has to be closed, only its end is the end."""
        if self.closed or self.nonsense:
            return True
        wants_end = self.case.must_close or self.case.behind or self.case.first_may_pass
        return bool(self.statuses) and not wants_end

    def feed(self, data: bytes) -> None:
        if not data:
            self.closed = True
        self.data += data
        while self._next_response():
            pass

    def _next_response(self) -> bool:
        end = self.data.find(b"\r\n\r\n", self._at)
        if end < 0:
            return False
        head = bytes(self.data[self._at : end])
        status = re.match(rb"HTTP/1\.[01] (\d{3})[ \r]", head + b"\r")
        if not status:
            self.nonsense = True
            return False
        body_end = self._body_end(head, end + 4, int(status[1]))
        if body_end is None:
            return False
        self._at = body_end
        if int(status[1]) >= 200:
            self.statuses.append(int(status[1]))
        return True

    def _body_end(self, head: bytes, start: int, status: int) -> int | None:
        if status < 200 or status in (204, 304) or self.case.is_head_request:
            return start
        length = re.search(rb"(?im)^content-length: *(\d+)\r?$", head + b"\r")
        if length:
            end = start + int(length[1])
        elif re.search(rb"(?im)^transfer-encoding: *chunked", head):
            end = self.data.find(b"0\r\n\r\n", start) + 5
            if end < start:
                return None
        else:
            end = len(self.data) if self.closed else len(self.data) + 1
        return end if len(self.data) >= end else None

    def brief(self) -> str:
        code = re.search(rb"<Code>([^<]*)</Code>", self.data)
        return f"{self.statuses} {code[1].decode() if code else ''}".strip()

    def classified(self) -> str:
        statuses = self.statuses
        if self.nonsense:
            return "nonsense"
        if any(status >= 500 for status in statuses):
            return "5xx"
        if self.case.behind and len(statuses) > 1:
            return "smuggled"
        if self.timed_out:
            return "left open" if statuses else "hang"
        if self.case.first_may_pass and statuses:
            statuses = statuses[1:]
        if not statuses:
            return "closed"
        if statuses[0] < 400:
            return "harmless" if self.case.harmless else "accepted"
        return "4xx"


async def honest_status(door: Door) -> int:
    """The status of a well-formed request: the door must still be open for others."""
    return int((await _ask(door, door.honest()))[9:12] or b"0")


async def prepare(host: str, port: int, access_key: str, secret_key: str, bucket: str) -> Door:
    """Puts the readable object into the bucket and starts the multipart upload that some cases refer to."""
    door = Door(host, port, Signer(access_key, secret_key), bucket, "readable", "none")
    await _ask(door, door.signed(b"PUT", b"readable", body=b"readable"))
    started = await _ask(door, door.signed(b"POST", b"readable", b"uploads="))
    upload_id = re.search(rb"<UploadId>([^<]+)</UploadId>", started)
    if not upload_id:
        raise RuntimeError(f"could not prepare the bucket: {started!r}")
    return replace(door, upload_id=upload_id[1].decode())


async def _ask(door: Door, request: Request) -> bytes:
    found = _Answer(Case("honest", request.raw()))
    reader, writer = await asyncio.open_connection(door.host, door.port)
    writer.write(found.case.raw)
    while not found.complete:
        found.feed(await reader.read(65536))
    writer.close()
    return bytes(found.data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("endpoint", "access-key", "secret-key", "bucket"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--show", action="store_true", help="print the bytes of each case")
    options = parser.parse_args()
    host, _, port = options.endpoint.rpartition(":")

    async def run() -> Tally:
        door = await prepare(host, int(port), options.access_key, options.secret_key, options.bucket)
        if options.show:
            for seed in range(options.first, options.first + options.count):
                print(seed, case(seed, door))
        return await probe(door, first=options.first, count=options.count)

    print(asyncio.run(run()).summary())


if __name__ == "__main__":
    main()
