"""The gateway process: `python -m tidegate.gateway.serve --data DIR --fd N`.

N is a listening socket that the supervisor opened. SIGTERM drains and ends the process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import resource
import signal
import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvloop

from tidegate import logs
from tidegate.assembly import open_tables, open_topics
from tidegate.core.errors import InvalidInput, TidegateError
from tidegate.datadir import DataDirectory
from tidegate.gateway.connection import ClientConnection
from tidegate.gateway.directory import Directory
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.intents import Intents
from tidegate.gateway.journal import Journal, NoJournal, TopicJournal
from tidegate.gateway.ordering import KeyOrder
from tidegate.gateway.shared_ordering import SharedKeyOrder
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.ports import Tables
from tidegate.settings import GatewaySettings, Settings, restore

logger = logging.getLogger(__name__)

_THREADS = 64
_DESCRIPTORS = 65536


def main() -> None:
    parser = argparse.ArgumentParser(prog="tidegate.gateway.serve", description="One gateway process.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--fd", type=int, required=True)
    arguments = parser.parse_args()
    data = DataDirectory(arguments.data)
    settings = restore(data.settings_file.read_text())
    logs.setup(settings, data.path, "gateway")
    _allow_many_connections()
    listener = socket.socket(fileno=arguments.fd)
    try:
        uvloop.run(serve(settings, data.path, listener))
    except TidegateError as error:
        logger.error("%s", error)
        sys.exit(1)


def _allow_many_connections() -> None:
    """As many descriptors as the machine's limit for a process permits: the usual 1024 are for other programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def serve(settings: Settings, data: Path, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    # Pools that wake hold a thread for seconds; tables and purges must not wait for them.
    loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="gateway"))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    tables = open_tables(settings, data)
    vault = Vault.open(data)
    changes = ChangeCounter(data)
    intents = Intents(data / "run" / "intents")
    host, port = listener.getsockname()[:2]
    gateway = Gateway(
        settings=settings,
        data=data,
        loop=loop,
        tables=tables,
        registry=Registry(tables, vault, data, settings),
        directory=Directory(tables, vault, changes, life=settings.gateway.route_seconds),
        changes=changes,
        order=_order(settings, data, tables),
        journal=_journal(settings, data, loop, intents),
        intents=intents,
        access_log=logs.AccessLog.open(settings.log, data),
        address=(host, port),
    )
    server = await loop.create_server(
        lambda: ClientConnection(gateway), sock=listener, backlog=1024, ssl=_tls(settings.gateway)
    )
    await gateway.register()
    housekeeping = loop.create_task(gateway.housekeeping())
    healing = loop.create_task(gateway.healer.run_forever())
    # What lives now lives as long as the process; what comes later dies young.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    logger.info("ready on %s port %d", host, port)
    stopping = loop.create_task(stop.wait())
    done, _ = await asyncio.wait({stopping, housekeeping, healing}, return_when=asyncio.FIRST_COMPLETED)
    for task in done - {stopping}:
        task.result()  # neither ends by itself: raise what ended it
    logger.info("draining: %d connections", len(gateway.connections))
    server.close()
    housekeeping.cancel()
    healing.cancel()
    await gateway.drain()
    tables.close()
    logger.info("ended")


def _order(settings: Settings, data: Path, tables: Tables) -> KeyOrder:
    """Redis is where gateways on several machines meet; SQLite is for one."""
    file = data / "run" / "order"
    return SharedKeyOrder(file, tables) if settings.tables.backend == "redis" else KeyOrder(file)


def _journal(settings: Settings, data: Path, loop: asyncio.AbstractEventLoop, intents: Intents) -> Journal:
    if not settings.metalog.enabled:
        logger.warning("the metadata log is switched off: lifecycle and replication will not see changes")
        return NoJournal()
    topics = open_topics(settings, data)
    topics.create(settings.metalog.topic, settings.metalog.partitions)
    return TopicJournal(topics, settings.metalog.topic, loop, intents.count)


def _tls(settings: GatewaySettings) -> ssl.SSLContext | None:
    if not settings.tls_certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key or None)
    except OSError as error:
        raise InvalidInput(f"gateway.tls_certificate or gateway.tls_key cannot be read: {error}") from None
    return context


if __name__ == "__main__":
    main()
