"""Finding free ports for a backend within the configured range."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

from tidegate.pools.backends.base import StartFailed

HOST = "127.0.0.1"


def free_blocks(ports: tuple[int, int], size: int) -> Iterator[range]:
    """Blocks of `size` neighbouring ports, all free a moment ago, in random order.

    Two managers may find the same block at once: the backend that comes second ends, and the next block is tried.
    """
    low, high = ports
    starts = list(range(low, high - size + 2, size))
    random.shuffle(starts)
    found = False
    for start in starts:
        block = range(start, start + size)
        if all(_is_free(port) for port in block):
            found = True
            yield block
    if not found:
        raise StartFailed(f"no {size} neighbouring ports are free between {low} and {high}: widen pools.port_low/high")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port whose last connections are only lingering counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
