"""The runner: has the jobs carried out that were asked for, the oldest first, one at a time over all machines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event as Flag
from typing import Any

from tidegate.jobs.job_list import Job, JobList, JobStatus
from tidegate.jobs.job_process import JobProcess
from tidegate.lease import KeptLease, Lease
from tidegate.ports import Tables

# One for all lists: two jobs at once would need the memory of two Sparks.
_LOCK = "movement/audit"
_LOCK_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.2


class JobRunner:
    """`data` is the data directory. The process that carries jobs out takes long to start, and is kept for
    `idle_seconds`. For one thread."""

    def __init__(
        self, tables: Tables, lists: Sequence[JobList[Any]], data: Path, *, idle_seconds: float, stop: Flag
    ) -> None:
        self._tables = tables
        self._lists = lists
        self._process = JobProcess(data)
        self._idle_seconds = idle_seconds
        self._stop = stop

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once()
            self._stop.wait(_LOOK_SECONDS)

    def run_once(self) -> None:
        """Carries out the oldest job that waits, if no other one runs."""
        if not any(not job.status.has_ended for jobs in self._lists for job in jobs.all()):
            self._process.end_if_idle(self._idle_seconds)
            return
        lock = Lease(self._tables, _LOCK, seconds=_LOCK_SECONDS)
        if not lock.try_acquire():
            return
        with KeptLease(lock, seconds=_LOCK_SECONDS):
            for jobs in self._lists:
                for killed in jobs.with_status(JobStatus.RUNNING):
                    jobs.put(killed.failed("it was killed; ask for another one", now=time.time()))
            waiting = [(job, jobs) for jobs in self._lists for job in jobs.with_status(JobStatus.WAITING)]
            if waiting:
                job, jobs = min(waiting, key=lambda pair: pair[0].id)  # ids begin with the time
                self._carry_out(job.id, jobs)
                jobs.prune()

    def close(self) -> None:
        self._process.end(at_once=True)

    def _carry_out(self, job_id: str, jobs: JobList[Any]) -> None:
        self._process.give(jobs.name, job_id)
        while True:
            exit_code = self._process.exit_code  # before the record, which is written before the process ends
            job: Job = jobs.get(job_id)
            if job.status.has_ended:
                self._process.job_ended()
                return
            if exit_code is not None:
                problem = f"its process ended with code {exit_code}; its log may tell why"
                jobs.put(job.failed(problem, now=time.time()))
                return
            if self._stop.wait(_POLL_SECONDS):
                self._process.end(at_once=True)
                stopped = jobs.get(job_id)
                if not stopped.status.has_ended:
                    jobs.put(stopped.failed("the service was stopped; ask for another one", now=time.time()))
                return
