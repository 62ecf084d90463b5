"""Objects that move to a location and back without end, by lifecycle and by operators, and readers that never rest."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from move_ledger import Ledger, wait_until
from running_service import RunningService

VICTIMS = ("tidegate.movement.serve", "tidegate.lifecycle.serve", "tidegate.gateway.serve")
STATES = {"plain": (), "versioned": ("Enabled",), "suspended": ("Enabled", "Suspended")}
# What lifecycle moves lies under this prefix; what operators move, there and back, elsewhere.
AGEING, MOVED = "ageing/", "moved/"
_READERS = 2
# A reader gives up where a client would by then have been told of an outage.
_READ_SECONDS = 60.0


@dataclass(frozen=True)
class Written:
    """A version that a client has written, with its data's digest. Without an id it is the key's only one."""

    bucket: str
    key: str
    version_id: str
    digest: bytes

    @property
    def named(self) -> dict[str, str]:
        named = {"VersionId": self.version_id} if self.version_id else {}
        return {"Bucket": self.bucket, "Key": self.key, **named}


@dataclass
class Fleet:
    """The objects, and what readers have found wrong with them."""

    ledger: Ledger
    chance: random.Random
    written: list[Written] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    reads: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def fill(self, count: int) -> None:
        """So many objects of each kind in buckets of each state, some with two versions."""
        rule = {
            "ID": "age", "Status": "Enabled", "Filter": {"Prefix": AGEING},
            "Transitions": [{"Days": 1, "StorageClass": self.ledger.storage_class}],
            "NoncurrentVersionTransitions": [{"NoncurrentDays": 1, "StorageClass": self.ledger.storage_class}],
        }  # fmt: skip
        s3 = self.ledger.s3
        for bucket, states in STATES.items():
            s3.create_bucket(Bucket=bucket)
            for state in states:
                s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": state})
            s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
        keys = [(bucket, f"{prefix}{n:03}") for bucket in STATES for prefix in (AGEING, MOVED) for n in range(count)]
        for bucket, key in keys:
            self._write(bucket, key)
            if bucket == "versioned" and self.chance.random() < 0.5:
                self._write(bucket, key)

    def add(self) -> None:
        """More for lifecycle to move."""
        for bucket in STATES:
            self._write(bucket, f"{AGEING}more-{len(self.written):05}")

    def _write(self, bucket: str, key: str) -> None:
        data = self.chance.randbytes(self.chance.choice((0, 7, 1000, 70_000)))
        made = retried(lambda: self.ledger.s3.put_object(Bucket=bucket, Key=key, Body=data))
        version_id = made.get("VersionId", "") if bucket == "versioned" else ""
        self.written.append(Written(bucket, key, version_id, sha256(data).digest()))

    # --- readers ---------------------------------------------------------------------------------

    def reading(self) -> ThreadPoolExecutor:
        threads = ThreadPoolExecutor(_READERS)
        for number in range(_READERS):
            threads.submit(self._read_forever, random.Random(number))
        return threads

    def stop_reading(self, threads: ThreadPoolExecutor) -> None:
        self._over.set()
        threads.shutdown()

    def _read_forever(self, chance: random.Random) -> None:
        while not self._over.is_set() and not self.wrong:
            self.check(chance.choice(self.written))
            self.reads += 1

    def check(self, one: Written) -> None:
        """A reader retries where the service is unavailable, and then must get the right bytes."""
        try:
            found = retried(lambda: self._digest(one))
        except (ClientError, BotoCoreError, AssertionError) as error:
            self.wrong.append(f"{time.time():.3f} {one.named}: {error!r}")
            return
        if found != one.digest:
            self.wrong.append(f"{time.time():.3f} {one.named}: other bytes")

    def _digest(self, one: Written) -> bytes:
        return sha256(self.ledger.s3.get_object(**one.named)["Body"].read()).digest()

    def check_all(self) -> None:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(self.check, self.written))
        listed = {
            (bucket, entry["Key"])
            for bucket in STATES
            for page in self.ledger.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
            for entry in page.get("Contents", [])
        }
        assert listed == {(one.bucket, one.key) for one in self.written}

    # --- moves -----------------------------------------------------------------------------------

    def ask_to_move(self, *, back: bool) -> str:
        """The id of a move of everything that operators move in one bucket."""
        return self._asked(
            self.chance.choice(list(STATES)), **({"back": True} if back else {"to": self.ledger.location})
        )

    def move_all(self, bucket: str) -> str:
        """The id of a move of all that operators have moved, to the location."""
        return self._asked(bucket, to=self.ledger.location)

    def _asked(self, bucket: str, **where: Any) -> str:
        asked = {"bucket": bucket, "prefix": MOVED, "versions": "to" in where, **where}
        with self.ledger.service.api() as api:
            return str(api.post("/api/v1/moves", json=asked).raise_for_status().json()["id"])

    def move(self, move_id: str) -> dict[str, Any]:
        with self.ledger.service.api() as api:
            found: dict[str, Any] = api.get(f"/api/v1/moves/{move_id}").raise_for_status().json()
        return found

    def left_by_lifecycle(self) -> list[str]:
        """Keys that are due and were not moved."""
        return [
            entry["Key"]
            for bucket in STATES
            for page in self.ledger.s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=AGEING)
            for entry in page.get("Versions", [])
            if entry.get("StorageClass", "STANDARD") != self.ledger.storage_class
        ]

    def wait_for_moves(self, ids: list[str]) -> None:
        for move_id in ids:
            wait_until(lambda: self.move(move_id)["ended_at"] is not None, lambda: str(self.move(move_id)))  # noqa: B023


def retried(call: Callable[[], Any]) -> Any:
    """As clients do on 503 and on broken connections, and for longer."""
    deadline = time.monotonic() + _READ_SECONDS
    while True:
        try:
            return call()
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (500, 503) or time.monotonic() > deadline:
                raise
        except BotoCoreError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def kill_one(service: RunningService, module: str, chance: random.Random) -> None:
    running: list[int] = []

    def found() -> bool:
        running[:] = service.pids_of(module)
        return bool(running)

    wait_until(found, f"a process of {module}")
    with suppress(ProcessLookupError):
        os.kill(chance.choice(running), signal.SIGKILL)
