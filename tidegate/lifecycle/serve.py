"""The lifecycle process: `python -m tidegate.lifecycle.serve --data DIR`, started by the supervisor.

All roles run here, each in a thread of its own. They keep nothing in memory that matters: a killed process loses
nothing, and what it had begun is delivered again.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from tidegate import assembly, logs
from tidegate.core.errors import TidegateError, Unavailable
from tidegate.datadir import DataDirectory
from tidegate.lifecycle.bucket_processor import BucketProcessor
from tidegate.lifecycle.conductor import Conductor
from tidegate.lifecycle.object_processor import ObjectProcessor
from tidegate.lifecycle.populator import QueuePopulator
from tidegate.lifecycle.rate import RateLimit
from tidegate.lifecycle.stores import Stores
from tidegate.lifecycle.topics import create_topics
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.settings import Settings, restore

_POLL_SECONDS = 0.2
_PAUSE_SECONDS = 2.0
_END_SECONDS = 30.0

logger = logging.getLogger(__name__)


def main() -> None:
    parser = argparse.ArgumentParser(description="The lifecycle roles of Tidegate.")
    parser.add_argument("--data", type=Path, required=True)
    directory = DataDirectory(parser.parse_args().data)
    settings = restore(directory.settings_file.read_text())
    logs.setup(settings, directory.path, "lifecycle")
    stop = Flag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        sys.exit(_run(directory, settings, stop))
    except TidegateError as error:
        sys.exit(f"lifecycle cannot start: {error}")


def _run(directory: DataDirectory, settings: Settings, stop: Flag) -> int:
    while (endpoints := directory.endpoints()) is None:  # the gateways are not ready yet
        if stop.wait(_POLL_SECONDS):
            return 0
    tables = assembly.open_tables(settings, directory.path)
    topics = assembly.open_topics(settings, directory.path)
    create_topics(topics)
    registry = Registry(tables, Vault.open(directory.path), directory.path, settings)
    stores = Stores(registry, partial(assembly.open_store, endpoints.s3))
    limit = RateLimit(settings.lifecycle.deletes_per_second, settings.lifecycle.deletes_burst)
    populator = QueuePopulator(tables, topics, log_topic=settings.metalog.topic)
    conductor = Conductor(tables, topics, settings.lifecycle)
    lister = BucketProcessor(tables, topics, stores, settings.lifecycle, stop=stop)
    deleter = ObjectProcessor(tables, topics, stores, limit=limit, threads=settings.lifecycle.workers, stop=stop)
    roles = [
        _Role("queue populator", partial(populator.run_forever, stop), populator.close, stop),
        _Role("conductor", partial(conductor.run_forever, stop), lambda: None, stop),
        _Role("bucket processor", lister.run_forever, lister.close, stop),
        _Role("object processor", deleter.run_forever, deleter.close, stop),
    ]
    for role in roles:
        role.start()
    stop.wait()
    for role in roles:
        role.join(_END_SECONDS)
    stores.close()
    topics.close()
    tables.close()
    return int(any(role.failed for role in roles))


class _Role(Thread):
    """Goes on when a server that it needs has been away for a while; any other fault ends the process, loudly."""

    def __init__(self, name: str, work: Callable[[], None], close: Callable[[], None], stop: Flag) -> None:
        super().__init__(name=name)
        self._work = work
        self._close = close
        self._stop_flag = stop
        self.failed = False

    def run(self) -> None:
        try:
            while not self._stop_flag.is_set():
                try:
                    self._work()
                except Unavailable as error:
                    logger.warning("the %s waits: %s", self.name, error)
                    self._stop_flag.wait(_PAUSE_SECONDS)
            self._close()
        except BaseException:
            logger.exception("the %s failed", self.name)
            self.failed = True
            self._stop_flag.set()


if __name__ == "__main__":
    main()
