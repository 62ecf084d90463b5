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
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvloop

from tidegate import logs
from tidegate.assembly import embedded_files, open_location, open_tables, open_topics
from tidegate.core.errors import InvalidInput, TidegateError
from tidegate.datadir import DataDirectory
from tidegate.gateway.changes.intents import Intents
from tidegate.gateway.changes.key_locks import KeyLocks
from tidegate.gateway.changes.log_writer import LogWriter, NoLogWriter, TopicLogWriter
from tidegate.gateway.changes.shared_key_locks import SharedKeyLocks
from tidegate.gateway.changes.write_gate import WriteGate
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.http.door import DESCRIPTORS, Door, most_connections
from tidegate.gateway.requests.directory import Directory
from tidegate.movement.locations import Locations
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.ports import Tables, Topics
from tidegate.settings import GatewaySettings, Settings, restore

logger = logging.getLogger(__name__)

_THREADS = 64
_PAUSE_SECONDS = 1.0


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
    except (TidegateError, OSError) as error:
        logger.error("the gateway cannot run: %s", error)
        sys.exit(1)


def _allow_many_connections() -> None:
    """As many descriptors as the machine's limit for a process permits: the usual 1024 are for other programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
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
    locations = Locations(tables, vault, settings.locations, open_location)
    intents = Intents(data / "run" / "intents")
    topics, log_topic = _topics(settings, data), settings.metalog.topic
    gate = _gate(settings, data, topics, intents)
    log_writer: LogWriter = NoLogWriter()
    if topics is not None:
        log_writer = TopicLogWriter(topics, log_topic, loop, intents.count, gate.close)
    host, port = listener.getsockname()[:2]
    gateway = Gateway(
        settings=settings,
        data=data,
        loop=loop,
        tables=tables,
        registry=Registry(tables, vault, data, settings),
        locations=locations,
        directory=Directory(
            tables,
            vault,
            changes,
            life=settings.gateway.route_seconds,
            find_location=locations.with_secret,
        ),
        change_counter=changes,
        key_locks=_key_locks(settings, data, tables),
        log_writer=log_writer,
        intents=intents,
        gate=gate,
        access_log=logs.AccessLog.open(settings.log, data),
        address=(host, port),
    )
    most = most_connections(settings.gateway.max_connections)
    door = Door(gateway, listener, _tls(settings.gateway), most)
    await gateway.healer.open_log()
    door.open()
    await gateway.register()
    endless = [gateway.housekeeping, gateway.healer.run_forever, gate.run_forever]
    background = {loop.create_task(_go_on_with(work)) for work in endless}
    # What lives now lives as long as the process; what comes later dies young.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    logger.info("ready on %s port %d for up to %d connections", host, port, most)
    stopping = loop.create_task(stop.wait())
    done, _ = await asyncio.wait({stopping, *background}, return_when=asyncio.FIRST_COMPLETED)
    for task in done - {stopping}:
        task.result()  # none of them ends by itself: raise what ended it
    logger.info("draining: %d connections", len(gateway.connections))
    door.close()
    for task in background:
        task.cancel()
    await gateway.drain()
    tables.close()
    logger.info("ended")


async def _go_on_with(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A machine that lacks something at the moment, be it space or descriptors, is no reason to end."""
    while True:
        try:
            await work()
        except OSError:
            logger.exception("what goes on in the background is begun anew")
            await asyncio.sleep(_PAUSE_SECONDS)


def _key_locks(settings: Settings, data: Path, tables: Tables) -> KeyLocks:
    """Redis is where gateways on several machines meet; SQLite is for one."""
    file = data / "run" / "order"
    return SharedKeyLocks(file, tables) if settings.tables.backend == "redis" else KeyLocks(file)


def _topics(settings: Settings, data: Path) -> Topics | None:
    if not settings.metalog.enabled:
        logger.warning("the metadata log is switched off: lifecycle and replication will not see changes")
        return None
    topics = open_topics(settings, data)
    topics.create(settings.metalog.topic, settings.metalog.partitions)
    return topics


def _gate(settings: Settings, data: Path, topics: Topics | None, intents: Intents) -> WriteGate:
    def probe_log() -> None:
        if topics is not None:
            topics.probe(settings.metalog.topic)

    places = [*embedded_files(settings, data), data / "run"]
    reserve_bytes = settings.storage.reserve_mb << 20
    return WriteGate(places, reserve_bytes, probe_notes=intents.probe, probe_log=probe_log)


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
