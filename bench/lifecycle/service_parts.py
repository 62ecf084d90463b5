"""The CPU time of a running Tidegate, told apart by its parts, backends and Spark included."""

from __future__ import annotations

from pathlib import Path

from bench.gateway.accounting import cpu_seconds

_MODULES = {
    "tidegate.gateway.serve": "gateways",
    "tidegate.lifecycle.serve": "worker",
    "tidegate.lifecycle.serve_passes": "passes",
    "tidegate.movement.serve": "movement",
}


Used = dict[str, dict[int, float]]


def cpu_used(data: Path) -> Used:
    """CPU seconds so far of the processes that name the data directory or have their own directory in it, by part:
    store, gateways, worker, passes, movement, spark, others."""
    parts: Used = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(str(data) in argument for argument in arguments) or (entry / "cwd").readlink().is_relative_to(data):
                parts.setdefault(_part(arguments), {})[pid] = cpu_seconds([pid])
        except OSError:  # it ended between the listing and the look
            continue
    return parts


def cpu_between(before: Used, after: Used) -> dict[str, float]:
    """Without processes that have ended meanwhile."""
    return {
        part: sum(seconds - before.get(part, {}).get(pid, 0.0) for pid, seconds in used.items())
        for part, used in after.items()
    }


def _part(arguments: list[str]) -> str:
    program = Path(arguments[0]).name
    if program.startswith("weed"):
        return "store"
    if program == "java" or any("pyspark" in argument for argument in arguments):
        return "spark"
    return next((_MODULES[argument] for argument in arguments if argument in _MODULES), "others")
