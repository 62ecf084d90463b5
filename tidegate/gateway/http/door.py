"""The door of a gateway process: lets connections in, as many as there are descriptors for, and makes room for more.

Descriptors are also needed for backends, pipes, tables and logs, so clients get a part of what the process may open.
At the limit whoever has been idle the longest makes room: a connection between two requests, one whose request head is
not complete, one whose TLS handshake does not come to its end. Where none is idle, the new one is closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import ssl
import struct
from collections import OrderedDict
from contextlib import suppress
from fcntl import ioctl
from functools import partial
from itertools import islice
from termios import FIONREAD
from typing import TYPE_CHECKING

from tidegate.gateway.http.connection import ClientConnection

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

logger = logging.getLogger(__name__)

DESCRIPTORS = 65536  # as many are asked for
_NUMBER = struct.Struct("i")
_BACKLOG = 1024
_AT_ONCE = 64  # then others have their turn
# For files and sockets that come and go with requests: connections to tables, logs, the start of a pool.
_FILES = 64
_LEAST_CONNECTIONS = 8
_PAUSE_SECONDS = 0.2
_WAIT_SECONDS = 0.05


def most_connections(setting: int) -> int:
    """How many clients may be connected at the same time: as set, or half of what can be opened beside what is open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = DESCRIPTORS if limit == resource.RLIM_INFINITY else limit
    spare = limit - len(os.listdir("/proc/self/fd")) - _FILES  # noqa: PTH208
    most = max(spare // 2, _LEAST_CONNECTIONS)
    if setting > most:
        logger.warning("gateway.max_connections is %d, and %d open files allow no more than %d", setting, limit, most)
    return min(setting, most) if setting else most


class Door:
    """Between `open` and `close`, connections come in from the listening socket."""

    def __init__(self, gateway: Gateway, listener: socket.socket, tls: ssl.SSLContext | None, most: int) -> None:
        self._gateway = gateway
        self._listener = listener
        self._tls = tls
        self._most = most
        self._handshakes: OrderedDict[socket.socket, float] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False
        self._out_of_descriptors = False

    def open(self) -> None:
        self._listener.setblocking(False)
        self._listener.listen(_BACKLOG)
        self._is_open = True
        self._gateway.loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        self._is_open = False
        self._gateway.loop.remove_reader(self._listener)
        self._listener.close()
        for connection in self._handshakes:
            _end(connection)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._out_of_descriptors = False
            self._let_in(connection, str(address[0]))

    def _pause(self, error: OSError) -> None:
        """There is no descriptor for whoever waits: without a pause the loop would do nothing but try."""
        if not self._out_of_descriptors:
            logger.error("no connection can be accepted: %s", error.strerror)
        self._out_of_descriptors = True
        self._make_room()
        self._gateway.loop.remove_reader(self._listener)
        self._gateway.loop.call_later(_PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        if self._is_open:
            self._gateway.loop.add_reader(self._listener, self._accept)

    def _let_in(self, connection: socket.socket, peer: str) -> None:
        gateway = self._gateway
        if not gateway.trusts(peer):  # first: strangers take nobody's place
            gateway.connection_refused("untrusted")
            connection.close()
            return
        self._place(connection)

    def _place(self, connection: socket.socket, *, has_waited: bool = False) -> None:
        gateway = self._gateway
        if len(gateway.connections) + len(self._handshakes) >= self._most and not self._make_room():
            if (gateway.idle or self._handshakes) and not has_waited:
                # What they have sent is read in a moment; then it is known who is idle.
                gateway.loop.call_later(_WAIT_SECONDS, partial(self._place, connection, has_waited=True))
                return
            gateway.connection_refused("too-many")
            connection.close()
            return
        if not self._is_open:
            connection.close()
            return
        connection.setblocking(False)
        self._handshakes[connection] = gateway.loop.time()
        task = gateway.loop.create_task(self._welcome(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _welcome(self, connection: socket.socket) -> None:
        """Until it is the protocol's; with TLS that takes a handshake."""
        gateway = self._gateway
        try:
            await gateway.loop.connect_accepted_socket(
                lambda: ClientConnection(gateway),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=gateway.settings.gateway.head_seconds if self._tls else None,
            )
        except (OSError, TimeoutError) as error:
            logger.debug("a connection came to nothing: %s", error)
        finally:
            self._handshakes.pop(connection, None)

    def _make_room(self) -> bool:
        """Ends the connection that has been idle the longest; False if none is."""
        idle, handshakes = self._gateway.idle, self._handshakes
        beginner = next((each for each in islice(handshakes, _AT_ONCE) if _is_silent(each)), None)
        resting = next((each for each in islice(idle, _AT_ONCE) if _is_silent(each.raw_socket)), None)
        if beginner is not None and (resting is None or handshakes[beginner] < idle[resting]):
            del handshakes[beginner]
            _end(beginner)
        elif resting is not None:
            del idle[resting]
            self._gateway.connections.discard(resting)
            resting.abort()
        else:
            return False
        self._gateway.connection_refused("made-room")
        return True


def _is_silent(connection: socket.socket) -> bool:
    """Whether nothing has come that was not read yet: who has just sent a request is not idle."""
    try:
        unread = ioctl(connection.fileno(), FIONREAD, bytes(_NUMBER.size))
    except OSError:
        return True  # it is closed already
    return _NUMBER.unpack(unread) == (0,)


def _end(connection: socket.socket) -> None:
    """It belongs to the event loop, which closes it when it sees its end."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
