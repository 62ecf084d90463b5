"""CPU time and memory of other processes, and which processes belong to a data directory."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SCHEDULER_CLOCK = 2


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of one Tidegate, by their part. Backends are in neither list."""

    gateways: tuple[int, ...]
    others: tuple[int, ...]


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of all threads, ended ones included, with the scheduler's precision:
    the ticks of /proc/PID/stat are too coarse for a run of a few seconds."""
    return sum(time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK) for pid in pids)


def memory_kib(pids: Iterable[int]) -> dict[str, int]:
    """Resident and proportional set size."""
    totals = {"rss": 0, "pss": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name.lower() in totals:
                totals[name.lower()] += int(rest.split()[0])
    return totals


def processes_of(data: Path) -> Processes:
    gateways, others = [], []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        arguments = _arguments(entry)
        if str(data) not in arguments:
            continue
        if "tidegate.gateway.serve" in arguments:
            gateways.append(int(entry.name))
        elif not Path(arguments[0]).name.startswith("weed"):
            others.append(int(entry.name))
    return Processes(tuple(gateways), tuple(others))


def children_of(pid: int) -> tuple[int, ...]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return tuple(int(child) for task in tasks for child in task.read_text().split())


def _arguments(entry: Path) -> list[str]:
    try:
        return (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # it ended between the listing and the look
        return []
