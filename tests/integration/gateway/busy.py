"""A pool with buckets of every kind of versioning, and clients that are busy in it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from places import Place
from raw_http import until
from running_service import RunningService

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "probe"))

from mixed_operations import Mixer, Record

BUCKETS = ["busy-plain", "busy-versioned", "busy-suspended"]
KEYS = [f"key-{number}" for number in range(12)] + ["colon:key", "deep/er/key", "new\nline+%\U0001f30a"]
CLIENTS = 8


def busy_place(service: RunningService) -> Place:
    made = Place(service, "busy", BUCKETS[0])
    for bucket, status in zip(BUCKETS[1:], ["Enabled", "Suspended"], strict=True):
        made.s3.create_bucket(Bucket=bucket)
        made.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        for key in KEYS[::3]:
            made.s3.put_object(Bucket=bucket, Key=key, Body=b"from the time of versions")
        made.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
    return made


@contextmanager
def busy_clients(place: Place, seed: int) -> Iterator[Record]:
    """All the while, eight clients put, overwrite, copy, tag, upload in parts and delete, each until it is answered."""
    record, over = Record(), threading.Event()

    def work(number: int) -> None:
        client = place.service.s3(place.key, retries=1, max_pool_connections=1)
        mixer = Mixer(client, BUCKETS, KEYS, record, seed + number)
        while not over.is_set():
            mixer.run(1)

    with ThreadPoolExecutor(CLIENTS) as threads:
        running = [threads.submit(work, number) for number in range(CLIENTS)]
        try:
            done_after(record, 60)
            yield record
        finally:
            over.set()
    for one in running:
        one.result()


def done_after(record: Record, count: int) -> None:
    goal = record.done + count
    until(lambda: record.done >= goal, 120, "the clients make no progress")
