"""A service for one command: starts one on the data directory if none runs, and stops it afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from tidegate.cli.invocation import Invocation
from tidegate.core.errors import Unavailable
from tidegate.processes import end_with_parent
from tidegate.service_account import started_by_root

LOG = "own-service.log"
_START_SECONDS = 90.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.1


@contextmanager
def service_for(invocation: Invocation) -> Iterator[None]:
    """The service that runs on the data directory, or else one that ends with the command."""
    directory = invocation.directory
    if directory.runs():
        yield
        return
    invocation.settings()  # what is wrong with them is told here, not in the log of the service
    directory.prepare()
    click.echo("note: no service runs on this data directory; one is started for this command", err=True)
    log = directory.log / LOG
    with log.open("ab") as output:
        process = subprocess.Popen(
            _command(invocation),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=end_with_parent(os.getpid()),
            user=0 if started_by_root() else None,  # also where root is in reserve
            group=0 if started_by_root() else None,
        )
    try:
        _wait_ready(invocation, process)
        yield
    finally:
        _stop(process)


def _command(invocation: Invocation) -> list[str]:
    command = [sys.executable, "-m", "tidegate.cli.main", "up", "--data", str(invocation.directory.path)]
    if invocation.config:
        command += ["--config", str(invocation.config.absolute())]
    for override in invocation.overrides:
        command += ["--set", override]
    return command


def _wait_ready(invocation: Invocation, process: subprocess.Popen[bytes]) -> None:
    directory, deadline = invocation.directory, time.monotonic() + _START_SECONDS
    while (endpoints := directory.endpoints()) is None or endpoints.pid != process.pid:
        if process.poll() is not None or time.monotonic() > deadline:
            raise Unavailable(f"the service did not start; {directory.log / LOG} says why")
        time.sleep(_POLL_SECONDS)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
