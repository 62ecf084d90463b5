"""The auditor: has the audits of locations carried out that were asked for, one at a time over all machines.

Each is a process of its own, which starts Spark and ends with it: an audit is rare, and what it needs is not kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Event as Flag

from tidegate.lease import KeptLease, Lease
from tidegate.movement.audits import AuditStatus, LocationAudit, LocationAudits
from tidegate.ports import Tables
from tidegate.processes import end_with_parent

_LOCK = "movement/audit"
_LOCK_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.2
_END_SECONDS = 10.0


class Auditor:
    """`data` is the data directory."""

    def __init__(self, tables: Tables, data: Path, stop: Flag) -> None:
        self._tables = tables
        self._data = data
        self._stop = stop
        self._audits = LocationAudits(tables, data)

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once()
            self._stop.wait(_LOOK_SECONDS)

    def run_once(self) -> None:
        """Carries out the oldest audit that waits, if no other one runs."""
        if not any(self._audits.with_status(status) for status in (AuditStatus.WAITING, AuditStatus.RUNNING)):
            return
        lock = Lease(self._tables, _LOCK, seconds=_LOCK_SECONDS)
        if not lock.try_acquire():
            return
        with KeptLease(lock, seconds=_LOCK_SECONDS):
            for killed in self._audits.with_status(AuditStatus.RUNNING):
                self._audits.put(killed.failed("it was killed; ask for another one", now=time.time()))
            waiting = self._audits.with_status(AuditStatus.WAITING)
            if waiting:
                self._carry_out(waiting[0])
                self._audits.prune()

    def _carry_out(self, audit: LocationAudit) -> None:
        command = [sys.executable, "-m", "tidegate.movement.audit_process", "--data", str(self._data)]
        process = subprocess.Popen(
            [*command, "--audit", audit.id], stdin=subprocess.DEVNULL, preexec_fn=end_with_parent(os.getpid())
        )
        while process.poll() is None:
            if self._stop.wait(_POLL_SECONDS):
                _end(process)
        left = self._audits.get(audit.id)
        if not left.status.has_ended:
            problem = f"its process ended with code {process.returncode}; its log may tell why"
            self._audits.put(left.failed(problem, now=time.time()))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
