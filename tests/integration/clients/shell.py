"""Command-line clients, run as their users run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ways import Way

PROGRAMS = Path(sys.executable).parent


class Shell:
    """Runs one program against one way."""

    def __init__(self, way: Way, home: Path, program: str, *options: str, **environment: str) -> None:
        self.home = home / way.name
        self.home.mkdir()
        self.command = [str(PROGRAMS / program), *options]
        self.environment = way.environment(self.home) | environment

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [*self.command, *words], capture_output=True, text=True, env=self.environment, cwd=self.home, timeout=240
        )
        assert done.returncode == 0, f"{words}: {done.stderr or done.stdout}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words) or "null")
