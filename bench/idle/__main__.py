"""`python -m bench.idle`: CPU seconds per minute of a service that nobody uses, beside the store that it runs.

The service has one pool, whose backend stays up, and lifecycle is on. A second part lets more consumers wait for
messages in a topic of the service, in a process of its own, and measures what they add.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path

import click

from bench.gateway.servers import Tidegate, running_tidegate, with_bucket
from bench.goals import word
from bench.idle.consumers import SETTLING_SECONDS, consume
from bench.lifecycle.service_parts import cpu_between, cpu_used

GOAL_SECONDS = 0.5


@click.command()
@click.option("--seconds", default=60.0, help="How long the idle service is watched.")
@click.option("--consumers", default=20, help="Consumers that are added in the second part.")
def main(seconds: float, consumers: int) -> None:
    """CPU seconds per minute of an idle service, by its parts."""
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home,
        running_tidegate(Path(home, "tidegate"), "gateway.port=0", "api.port=0") as service,
    ):
        with_bucket(service, "idle")
        time.sleep(SETTLING_SECONDS)
        parts = _watch(service, seconds)
        added = _watch_consumers(service, consumers, seconds)
    print(_table(parts, consumers, added))


def _watch(service: Tidegate, seconds: float) -> dict[str, float]:
    """CPU seconds per minute by part of the service."""
    before = cpu_used(service.data)
    time.sleep(seconds)
    return {part: used * 60 / seconds for part, used in cpu_between(before, cpu_used(service.data)).items()}


def _watch_consumers(service: Tidegate, count: int, seconds: float) -> float:
    """CPU seconds per minute of a process in which so many consumers wait."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=consume, args=(service.data, count, seconds, theirs))
    process.start()
    theirs.close()
    try:
        used: float = ours.recv()
        return used * 60 / seconds
    finally:
        process.join()


def _table(parts: dict[str, float], consumers: int, added: float) -> str:
    store = parts.pop("store", 0.0)
    service = sum(parts.values())
    lines = [f"{'CPU seconds per minute':<44}", "-" * 52]
    lines += [f"{name:<44} {used:7.2f}" for name, used in sorted(parts.items(), key=lambda part: -part[1])]
    lines += [
        f"{'the whole service':<44} {service:7.2f}",
        f"{'its store, SeaweedFS':<44} {store:7.2f}",
        f"{'service / store':<44} {service / store if store else float('inf'):7.2f}",
        f"{f'{consumers} more consumers':<44} {added:7.2f}",
        "",
        f"goal at most {GOAL_SECONDS} s: {service:.2f}, {word(service <= GOAL_SECONDS)}; "
        f"with {consumers} more consumers: {service + added:.2f}, {word(service + added <= GOAL_SECONDS)}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
