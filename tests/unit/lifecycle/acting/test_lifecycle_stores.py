"""The stores of lifecycle: each pool is seen with one key of its own, whoever asks first."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from lifecycle_place import LifecyclePlace

from tidegate.pools import catalogue

THREADS = 8


def test_threads_that_ask_at_the_same_moment_share_one_key(place: LifecyclePlace) -> None:
    place.registry.create_pool("fresh", now=time.time())
    stores = place.open_stores()
    together = threading.Barrier(THREADS)

    def ask() -> tuple[str, str]:
        together.wait(30)
        return stores.credentials("fresh")

    with ThreadPoolExecutor(THREADS) as threads:
        found = {asked.result() for asked in [threads.submit(ask) for _ in range(THREADS)]}
    made = {key.access_key for key in catalogue.keys_of(place.tables, "fresh") if key.internal}
    assert {access_key for access_key, _ in found} == made
    assert len(made) == 1
