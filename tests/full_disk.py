"""A program run on a file system of its own that is small, for ordinary users too: a tmpfs in a mount namespace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import user_namespace

_PRELUDE = """
import sys
from pathlib import Path

disk = Path(sys.argv[1])

def fill():
    with (disk / "filler").open("ab", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2

def free():
    (disk / "filler").unlink()
"""

needs_small_disk = pytest.mark.skipif(
    subprocess.run([*user_namespace.prefix(), "true"], capture_output=True).returncode != 0,
    reason="needs user namespaces, to mount a small file system",
)


def run_on_small_disk(program: str, place: Path, *, size: str) -> subprocess.CompletedProcess[str]:
    """Runs Python text that finds `disk`, the directory of that size, `fill` and `free`."""
    place.mkdir(exist_ok=True)
    command = [
        *user_namespace.prefix("--small", size, str(place)),
        sys.executable,
        "-c",
        _PRELUDE + program,
        str(place),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)
