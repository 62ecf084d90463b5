"""The process of jobs as its runner sees it: started for the first job, and kept for those that follow."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tidegate.processes import end_with_parent

_MODULE = "tidegate.jobs.serve"
_END_SECONDS = 10.0


class JobProcess:
    """`data` is the data directory. For one thread, with which the process ends as well."""

    def __init__(self, data: Path) -> None:
        self._command = [sys.executable, "-m", _MODULE, "--data", str(data)]
        self._process: subprocess.Popen[str] | None = None
        self._used_at = 0.0

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or if there is none."""
        return self._process.poll() if self._process is not None else None

    def give(self, name: str, job_id: str) -> None:
        """A job of the list of that name. The process must be done with the one before."""
        if self._process is None or self.exit_code is not None:
            self.end()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, text=True, preexec_fn=end_with_parent(os.getpid())
            )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and its exit code tells
            self._process.stdin.write(f"{name} {job_id}\n")
            self._process.stdin.flush()

    def job_ended(self) -> None:
        self._used_at = time.monotonic()

    def end_if_idle(self, seconds: float) -> None:
        if self._process is not None and time.monotonic() - self._used_at >= seconds:
            self.end()

    def end(self, *, at_once: bool = False) -> None:
        """After the job that is under way, unless `at_once`."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        if at_once:
            process.terminate()
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
