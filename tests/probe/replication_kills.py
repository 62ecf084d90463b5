"""A bucket that is written to without end while it is replicated to two stores, and processes that are killed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from replication_ledger import ReplicationLedger

VICTIMS = (
    "tidegate.movement.serve",
    "tidegate.gateway.serve",
    "tidegate.movement.serve",
    "tidegate.lifecycle.serve",
    "tidegate.movement.serve",
    "tidegate.web.serve",
    "tidegate.pools.manager",
)
_KEYS = [f"{folder}{number:02}" for folder in ("", "a/", "a-b/é ") for number in range(6)]
_PART_BYTES = 5 << 20
# Clients try for so long; by then they would have been told of an outage.
_TAKEN_SECONDS = 120.0
_PAUSE_SECONDS = 0.05


@dataclass
class Writers:
    """Clients that put versions, with and without tags, some in parts, change tags and put delete markers on top."""

    ledger: ReplicationLedger
    bucket: str
    writes: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: ThreadPoolExecutor | None = None
    _futures: list[Future[None]] = field(default_factory=list)

    def begin(self, count: int, seed: int) -> None:
        """Each has keys of its own: of what two write at once, nobody can say which is on top."""
        self._threads = ThreadPoolExecutor(count)
        for number in range(count):
            chance = random.Random(f"{seed}/{number}")
            self._futures.append(self._threads.submit(self._write_forever, chance, _KEYS[number::count]))

    def end(self) -> None:
        self._over.set()
        assert self._threads is not None
        self._threads.shutdown()
        for future in self._futures:
            future.result()

    def check(self) -> None:
        """Raises what a writer has met."""
        for future in self._futures:
            if future.done():
                future.result()

    def _write_forever(self, chance: random.Random, keys: list[str]) -> None:
        while not self._over.is_set():
            self._write(chance, chance.choice(keys))
            self.writes += 1
            self._over.wait(_PAUSE_SECONDS + chance.random() * 0.3)

    def _write(self, chance: random.Random, key: str) -> None:
        s3, named = self.ledger.s3, {"Bucket": self.bucket, "Key": key}
        kind = chance.choices(("put", "tagged", "marker", "tags", "parts"), (50, 20, 15, 12, 3))[0]
        data = chance.randbytes(chance.choice((0, 7, 1000, 70_000)))
        if kind == "put":
            taken(lambda: s3.put_object(**named, Body=data, Metadata={"size": str(len(data))}))
        elif kind == "tagged":
            taken(lambda: s3.put_object(**named, Body=data, Tagging=f"n={self.writes}", ContentType="text/plain"))
        elif kind == "marker":
            taken(lambda: s3.delete_object(**named))
        elif kind == "tags":
            tags = {"TagSet": [{"Key": "later", "Value": str(self.writes)}]}
            taken(lambda: s3.put_object_tagging(**named, Tagging=tags), may_lack=True)
        else:
            taken(lambda: _put_in_parts(s3, named, chance))


def _put_in_parts(s3: Any, named: dict[str, str], chance: random.Random) -> None:
    """Larger than what is replicated whole."""
    upload = s3.create_multipart_upload(**named)
    of_upload = {**named, "UploadId": upload["UploadId"]}
    bodies = [chance.randbytes(1000) * (_PART_BYTES // 1000 + 1), chance.randbytes(100_000)]
    etags = [s3.upload_part(**of_upload, PartNumber=number, Body=body)["ETag"] for number, body in enumerate(bodies, 1)]
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
    s3.complete_multipart_upload(**of_upload, MultipartUpload={"Parts": parts})


def taken(call: Callable[[], Any], *, may_lack: bool = False) -> Any:
    """Clients try again on 503 and on broken connections. `may_lack`: there may be no object of that key."""
    deadline = time.monotonic() + _TAKEN_SECONDS
    while True:
        try:
            return call()
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if may_lack and status in (404, 405):
                return None
            # An upload whose end was not heard of may have been completed.
            if status == 404 and error.response["Error"]["Code"] == "NoSuchUpload":
                return None
            if status not in (500, 503) or time.monotonic() > deadline:
                raise
        except BotoCoreError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
