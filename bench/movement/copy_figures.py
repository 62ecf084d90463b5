"""Figures of copies from store to store, beside rclone, which copies the same objects: measured, counted and shown."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.gateway.requests import Target
from bench.goals import word
from bench.movement.stores import CONCURRENCY, client

GOAL = 1.0
RCLONE = "rclone"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    objects: int
    size: int


@dataclass(slots=True)
class Figures:
    """Seconds for all objects by way, and the CPU seconds of the service's parts when it was its turn; one for each
    round. `own` is the way of the service."""

    case: Case
    own: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: list[dict[str, float]] = field(default_factory=list)

    def median(self, way: str) -> float:
        return statistics.median(self.seconds[way])

    @property
    def ratio(self) -> float:
        return self.median(RCLONE) / self.median(self.own)

    @property
    def cpu_of_parts(self) -> dict[str, list[float]]:
        parts = {part: None for used in self.cpu for part in used}
        return {part: [used.get(part, 0.0) for used in self.cpu] for part in parts}

    def table(self) -> str:
        case = self.case
        lines = [f"{f'{case.objects:,} of {case.name}':<30} {'seconds':>8} {'objects/s':>10} {'MiB/s':>8}", "-" * 59]
        for way in self.seconds:
            seconds = self.median(way)
            mib = case.objects * case.size / seconds / (1 << 20)
            lines.append(f"{way:<30} {seconds:8.1f} {case.objects / seconds:10,.1f} {mib:8.1f}")
        used = ", ".join(f"{part} {statistics.median(seconds):.1f}" for part, seconds in self.cpu_of_parts.items())
        goal = f"goal {GOAL} x rclone: {self.ratio:.2f}, {word(self.ratio >= GOAL)}"
        return "\n".join([*lines, "", f"CPU seconds of the {self.own}: {used}", f"{CONCURRENCY} at a time; {goal}"])


def as_json(found: list[Figures], **more: object) -> str:
    return json.dumps(
        [
            {
                "objects": each.case.objects,
                "size": each.case.size,
                "seconds": each.seconds,
                "cpu": each.cpu_of_parts,
                "ratio": each.ratio,
                "goal": GOAL,
                **more,
            }
            for each in found
        ],
        indent=2,
    )


def rclone(verb: str, source: Target, path: str, target: Target, bucket: str, prefix: str, case: Case) -> float:
    """Seconds in which rclone brought all objects of the case from a path to the bucket, under the prefix if any."""
    variables = {
        f"RCLONE_CONFIG_{name}_{option}": value
        for name, remote in {"FROM": source, "TO": target}.items()
        for option, value in {
            "TYPE": "s3",
            "PROVIDER": "SeaweedFS",
            "ENDPOINT": f"http://{remote.authority}",
            "ACCESS_KEY_ID": remote.access_key,
            "SECRET_ACCESS_KEY": remote.secret_key,
        }.items()
    }
    command = [
        str(Path(sys.executable).parent / "rclone"), verb, f"from:{path}", f"to:{bucket}/{prefix}".rstrip("/"),
        "--config", "/dev/null", "--retries", "1", "--transfers", str(CONCURRENCY), "--checkers", str(CONCURRENCY),
    ]  # fmt: skip
    began = time.monotonic()
    subprocess.run(command, check=True, env={**os.environ, **variables})
    seconds = time.monotonic() - began
    check_arrived(target, bucket, f"{prefix}/" if prefix else "", case)
    return seconds


def check_arrived(target: Target, bucket: str, prefix: str, case: Case) -> None:
    pages = client(target).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    sizes = [entry["Size"] for page in pages for entry in page.get("Contents", ())]
    if sizes != [case.size] * case.objects:
        raise SystemExit(f"{len(sizes)} objects have arrived in {bucket}/{prefix}, not {case.objects}")
