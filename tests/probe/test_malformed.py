"""Malformed requests end in a refusal or a closed connection, and harm nobody else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from malformed import Tally, honest_status, prepare, probe
from malformed_case import Door
from running_service import RunningService

COUNT = int(os.environ.get("FUZZ_REQUESTS", "2000"))
FIRST_SEED = int(os.environ.get("FUZZ_SEED", "0"))
BUCKET = "malformed"
# What the second half may still add: a few documents of 6 MB, refused while they come in, meet at once by chance.
GROWTH_KIB = 32 * 1024


@pytest.mark.timeout(300 + COUNT // 20)
def test_malformed_requests_are_refused_without_errors_hangs_or_growth(
    make_service: Callable[..., RunningService],
) -> None:
    service = make_service(
        gateway__processes=1, gateway__head_seconds=3, gateway__stall_seconds=3, gateway__idle_seconds=6
    )
    key = service.create_pool("malformed")
    service.s3(key).create_bucket(Bucket=BUCKET)
    address = urlsplit(service.s3_url)
    tallies, door, memory = asyncio.run(
        _probe(service, str(address.hostname), address.port or 0, key.access_key, key.secret_key)
    )

    for tally in tallies:
        print(tally.summary())
    print(f"memory of the gateway in KiB, at the start, after one half and at the end: {memory}")
    offenders = [offender for tally in tallies for offender in tally.offenders]
    assert not offenders, f"{len(offenders)} of {COUNT}: " + "\n".join(offenders[:20])
    assert memory[2] - memory[1] < GROWTH_KIB
    assert asyncio.run(honest_status(door)) == 200


async def _probe(
    service: RunningService, host: str, port: int, access_key: str, secret_key: str
) -> tuple[list[Tally], Door, list[int]]:
    """Two halves: in the first the gateway meets everything for the first time, in the second it must not grow."""
    door = await prepare(host, port, access_key, secret_key, BUCKET)
    memory = [_memory_kib(service)]
    tallies = []
    for first in (FIRST_SEED, FIRST_SEED + COUNT // 2):
        tallies.append(await probe(door, first=first, count=COUNT // 2))
        memory.append(_memory_kib(service))
    return tallies, door, memory


def _memory_kib(service: RunningService) -> int:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in service.gateway_pids())
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024
