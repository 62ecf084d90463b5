"""What the processes of lifecycle have in common: how they start, what they stand on, and when they are told to end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event as Flag

from tidegate import assembly, logs
from tidegate.core.errors import TidegateError
from tidegate.datadir import DataDirectory
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.topics import create_topics
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.ports import Tables, Topics
from tidegate.settings import Settings, restore
from tidegate.workers.process import stop_on_signals

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """`s3` is the gateways' address, through which stores are reached; `stop` is set when the process is to end."""

    settings: Settings
    data: Path
    s3: str
    tables: Tables
    topics: Topics
    stores: Stores
    stop: Flag


def run(name: str, description: str, work: Callable[[ServiceContext], int]) -> int:
    """Does the work of a process and gives its exit code; 0 if it was told to end before the gateways were ready."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True)
    directory = DataDirectory(parser.parse_args().data)
    settings = restore(directory.settings_file.read_text())
    logs.setup(settings, directory.path, name)
    stop = stop_on_signals()
    try:
        context = _service_context(directory, settings, stop)
        return 0 if context is None else work(context)
    except TidegateError as error:
        sys.exit(f"{name} cannot start: {error}")


def _service_context(directory: DataDirectory, settings: Settings, stop: Flag) -> ServiceContext | None:
    while (endpoints := directory.endpoints()) is None:  # the gateways are not ready yet
        if stop.wait(_POLL_SECONDS):
            return None
    tables = assembly.open_tables(settings, directory.path)
    topics = assembly.open_topics(settings, directory.path)
    create_topics(topics)
    topics.create(settings.deletion.topic, settings.deletion.partitions)
    registry = Registry(tables, Vault.open(directory.path), directory.path, settings)
    stores = Stores(registry, partial(assembly.open_store, endpoints.s3))
    return ServiceContext(settings, directory.path, endpoints.s3, tables, topics, stores, stop)
