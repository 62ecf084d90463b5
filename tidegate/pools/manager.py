"""The manager of one pool: a process that starts its backend, watches it and stops it.

`python -m tidegate.pools.manager --data DIR --pool NAME` prints one line of JSON, {"endpoint": "PATH or HOST:PORT"} or
{"error": "…", "retry_after": SECONDS}. If it started the backend it stays; otherwise it ends.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from pathlib import Path

from tidegate import logs
from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.errors import TidegateError
from tidegate.pools.running import Running
from tidegate.pools.starting import Refused, Starting
from tidegate.pools.vault import Vault
from tidegate.pools.waiting import StopRequested, hold_signals
from tidegate.pools.watching import End, Watch
from tidegate.settings import Settings

log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    hold_signals()
    parser = argparse.ArgumentParser(prog="tidegate.pools.manager", description="Runs the backend of one pool.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pool", required=True)
    options = parser.parse_args(arguments)
    try:
        settings = settings_module.restore((options.data / "run" / "settings.json").read_text())
        logs.setup(settings, options.data, f"manager {options.pool}")
        return manage(options.data, options.pool, settings)
    except (TidegateError, OSError) as error:
        log.error("pool %s: %s", options.pool, error)
        answer({"error": str(error), "retry_after": 5})
        return 1


def manage(data: Path, pool: str, settings: Settings) -> int:
    """Starts the pool's backend unless another manager does, then watches it until it is to stop."""
    tables = open_tables(settings, data)
    try:
        begun = time.monotonic()
        outcome = Starting(tables, Vault.open(data), data, pool, settings).run()
        if isinstance(outcome, Refused):
            answer({"error": outcome.why, "retry_after": outcome.retry_after})
            return 1
        if not isinstance(outcome, Running):
            answer({"endpoint": outcome})
            return 0
        log.info("pool %s runs at %s after %.1f s", pool, outcome.backend.endpoint, time.monotonic() - begun)
        answer({"endpoint": outcome.backend.endpoint})
        try:
            end = Watch(outcome).run()
        except StopRequested as request:
            end = End(str(request))
        log.info("pool %s stops: %s", pool, end.why)
        outcome.stop(in_charge=end.in_charge)
        return 0
    finally:
        tables.close()


def answer(line: dict[str, object]) -> None:
    """Prints the one line of the answer and closes standard output, so that the reader sees the end."""
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        log.debug("nobody waits for the answer any more")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
