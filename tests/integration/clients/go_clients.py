"""Clients that are built with Go, which not every machine has: `make clients` builds and tests them.

The name of this file keeps it out of `make test`.
"""

from __future__ import annotations

import json
from pathlib import Path

from metadata_log import MetadataLog
from running_service import ROOT
from syncs import Forest, SyncClient, check_down, check_up
from ways import Way


def _mirrored(output: str) -> list[str]:
    """The objects that mc copied or removed; its last line, which names none, is a sum."""
    told = [json.loads(line) for line in output.splitlines()]
    return [line["target"] for line in told if "target" in line]


MC = SyncClient(
    "mc",
    str(ROOT / ".tools" / "mc"),
    options=lambda way: ("--json",),
    command=("mirror", "--overwrite", "--remove"),
    deletes=True,
    environment=lambda way: {
        "MC_HOST_store": f"http://{way.key.access_key}:{way.key.secret_key}@{way.authority}",
    },
    remote="store/{}",
    actions=_mirrored,
)


def test_mc_mirrors_up_and_the_next_time_does_nothing(
    gateway: Way, log: MetadataLog, forest: Forest, tmp_path: Path
) -> None:
    check_up(MC, gateway, log, forest, tmp_path)


def test_mc_mirrors_down_and_the_next_time_does_nothing(
    gateway: Way, log: MetadataLog, forest: Forest, tmp_path: Path
) -> None:
    check_down(MC, gateway, log, forest, tmp_path)
