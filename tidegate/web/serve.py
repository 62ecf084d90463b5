"""The API process: `python -m tidegate.web.serve --data DIR --fd N`, started by the supervisor."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn

from tidegate import logs
from tidegate.core.errors import TidegateError
from tidegate.datadir import DataDirectory
from tidegate.settings import restore
from tidegate.web.app import create_app
from tidegate.web.host_check import own_names
from tidegate.web.housekeeping import Housekeeping
from tidegate.web.service import Service

_STOP_SECONDS = 1
_LOOK_SECONDS = 1.0  # uvicorn renews the header Date as often
_HEAD_LIMIT_BYTES = 16 * 1024
_CONNECTIONS = 500


class _Server(uvicorn.Server):
    """Looks once a second whether it is to end, or when a signal says so; uvicorn's own looks ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), _LOOK_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told.set)


def main() -> None:
    parser = argparse.ArgumentParser(description="The HTTP API of Tidegate, on a socket it inherits.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--fd", type=int, required=True)
    arguments = parser.parse_args()
    directory = DataDirectory(arguments.data)
    settings = restore(directory.settings_file.read_text())
    logs.setup(settings, directory.path, "api")
    try:
        service = Service.open(directory, settings)
    except TidegateError as error:
        sys.exit(f"the API cannot start: {error}")
    listener = socket.socket(fileno=arguments.fd)
    host, port = listener.getsockname()[:2]
    names = own_names(host, port, settings.api.names, tls=bool(settings.api.tls_certificate))
    config = uvicorn.Config(
        create_app(service, names),
        http="h11",  # limits the size of a head, which the other parser does not
        h11_max_incomplete_event_size=_HEAD_LIMIT_BYTES,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ssl_certfile=settings.api.tls_certificate or None,
        ssl_keyfile=settings.api.tls_key or None,
    )
    housekeeping = Housekeeping(service)
    housekeeping.start()
    try:
        asyncio.run(_Server(config).serve(sockets=[listener]))
    finally:
        housekeeping.stop()
        service.close()


if __name__ == "__main__":
    main()
