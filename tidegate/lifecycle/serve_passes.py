"""The process of the passes: `python -m tidegate.lifecycle.serve_passes --data DIR`, started by the supervisor.

The conductor runs here, and with it the engine that plans on Spark. Nothing in memory matters: a killed pass is closed,
and its work resumed, by the next one. So this process ends fast when it is told to, whatever Spark is doing.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from functools import partial
from pathlib import Path
from threading import Event as Flag

from tidegate import assembly, logs
from tidegate.core.errors import TidegateError
from tidegate.datadir import DataDirectory
from tidegate.lifecycle.conductor import Conductor
from tidegate.lifecycle.roles import Role
from tidegate.lifecycle.spark_engine import NAME, SparkEngine
from tidegate.lifecycle.stores import Stores
from tidegate.lifecycle.topics import create_topics
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.settings import Settings, restore

_POLL_SECONDS = 0.2
# A gateway that ends has as long, at least; then everything is killed.
_END_SECONDS = 1.5

logger = logging.getLogger(__name__)


def main() -> None:
    parser = argparse.ArgumentParser(description="The passes of Tidegate's lifecycle.")
    parser.add_argument("--data", type=Path, required=True)
    directory = DataDirectory(parser.parse_args().data)
    settings = restore(directory.settings_file.read_text())
    logs.setup(settings, directory.path, "passes")
    stop = Flag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        code = _run(directory, settings, stop)
    except TidegateError as error:
        sys.exit(f"passes cannot start: {error}")
    logging.shutdown()
    # Threads that wait for Spark, which is gone, would hold the process up.
    os._exit(code)


def _run(directory: DataDirectory, settings: Settings, stop: Flag) -> int:
    while (endpoints := directory.endpoints()) is None:  # the gateways are not ready yet
        if stop.wait(_POLL_SECONDS):
            return 0
    tables = assembly.open_tables(settings, directory.path)
    topics = assembly.open_topics(settings, directory.path)
    create_topics(topics)
    registry = Registry(tables, Vault.open(directory.path), directory.path, settings)
    stores = Stores(registry, partial(assembly.open_store, endpoints.s3))
    engine = SparkEngine(tables, topics, stores, settings, directory.path, endpoints.s3, stop=stop)
    conductor = Conductor(tables, topics, settings.lifecycle, {NAME: engine})
    role = Role("conductor", partial(conductor.run_forever, stop), lambda: None, stop)
    role.start()
    stop.wait()
    engine.cancel()
    role.join(_END_SECONDS)
    engine.kill()
    return int(role.failed)


if __name__ == "__main__":
    main()
