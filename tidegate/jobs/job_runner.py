"""The runner: has the jobs of one kind carried out that were asked for, one at a time over all machines.

Each is a process of its own, which starts Spark and ends with it: such a job is rare, and what it needs is not kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Event as Flag
from typing import Generic

from tidegate.jobs.job_list import AnyJob, JobList, JobStatus
from tidegate.lease import KeptLease, Lease
from tidegate.ports import Tables
from tidegate.processes import end_with_parent

# One for all kinds: two of them at once would need the memory of two Sparks.
_LOCK = "movement/audit"
_LOCK_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.2
_END_SECONDS = 10.0


class JobRunner(Generic[AnyJob]):
    """`module` is the program that carries a job out; `data` is the data directory."""

    def __init__(self, tables: Tables, jobs: JobList[AnyJob], module: str, data: Path, stop: Flag) -> None:
        self._tables = tables
        self._jobs = jobs
        self._module = module
        self._data = data
        self._stop = stop

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once()
            self._stop.wait(_LOOK_SECONDS)

    def run_once(self) -> None:
        """Carries out the oldest job that waits, if no other one runs."""
        if not any(not job.status.has_ended for job in self._jobs.all()):
            return
        lock = Lease(self._tables, _LOCK, seconds=_LOCK_SECONDS)
        if not lock.try_acquire():
            return
        with KeptLease(lock, seconds=_LOCK_SECONDS):
            for killed in self._jobs.with_status(JobStatus.RUNNING):
                self._jobs.put(killed.failed("it was killed; ask for another one", now=time.time()))
            waiting = self._jobs.with_status(JobStatus.WAITING)
            if waiting:
                self._carry_out(waiting[0])
                self._jobs.prune()

    def _carry_out(self, job: AnyJob) -> None:
        command = [sys.executable, "-m", self._module, "--data", str(self._data), "--job", job.id]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent(os.getpid()))
        while process.poll() is None:
            if self._stop.wait(_POLL_SECONDS):
                _end(process)
        left = self._jobs.get(job.id)
        if not left.status.has_ended:
            problem = f"its process ended with code {process.returncode}; its log may tell why"
            self._jobs.put(left.failed(problem, now=time.time()))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
