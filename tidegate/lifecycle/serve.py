"""The lifecycle process: `python -m tidegate.lifecycle.serve --data DIR`, started by the supervisor.

All roles but the conductor run here, each in a thread of its own. They keep nothing in memory that matters: a killed
process loses nothing, and what it had begun is delivered again.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from functools import partial
from pathlib import Path
from threading import Event as Flag

from tidegate import assembly, logs
from tidegate.core.errors import TidegateError
from tidegate.datadir import DataDirectory
from tidegate.lifecycle.bucket_processor import BucketProcessor
from tidegate.lifecycle.object_processor import ObjectProcessor
from tidegate.lifecycle.populator import QueuePopulator
from tidegate.lifecycle.rate import RateLimit
from tidegate.lifecycle.retention import Retention
from tidegate.lifecycle.roles import Role
from tidegate.lifecycle.stores import Stores
from tidegate.lifecycle.topics import create_topics
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.settings import Settings, restore

_POLL_SECONDS = 0.2
_END_SECONDS = 30.0
# While one keeps its books, the other has the stores at work.
_OBJECT_PROCESSORS = 2

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
    lister = BucketProcessor(tables, topics, stores, settings.lifecycle, stop=stop)
    threads = -(-settings.lifecycle.workers // _OBJECT_PROCESSORS)
    deleters = [
        ObjectProcessor(
            tables,
            topics,
            stores,
            limit=limit,
            threads=threads,
            lease_seconds=settings.topics.lease_seconds,
            stop=stop,
        )
        for _ in range(_OBJECT_PROCESSORS)
    ]
    retention = Retention(topics, settings, directory.path)
    roles = [
        Role("queue populator", partial(populator.run_forever, stop), populator.close, stop),
        Role("bucket processor", lister.run_forever, lister.close, stop),
        *(Role("object processor", deleter.run_forever, deleter.close, stop) for deleter in deleters),
        Role("retention", partial(retention.run_forever, stop), lambda: None, stop),
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


if __name__ == "__main__":
    main()
