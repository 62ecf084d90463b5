"""What happens to a writing client when the parts behind the gateway are stopped, killed or disowned."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, HTTPClientError
from running_service import PoolKey, RunningService, words_of

from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.records import BackendEntry

BUCKET = "probed"
ENOUGH = 20
RECOVERY_SECONDS = 90.0


@dataclass
class Writer:
    """Writes object after object until told to stop, and remembers what was acknowledged and what was refused."""

    client: Any
    written: dict[str, bytes] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    strange: list[str] = field(default_factory=list)
    last_failed: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> Writer:
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()
        return self

    def stop(self) -> None:
        self._over.set()
        assert self._thread
        self._thread.join()

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.written) + count
        wait_until(lambda: len(self.written) >= wanted, f"{count} more objects written; refused {self.refusals}")

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            self._write(f"object-{number}", f"contents {number}".encode())

    def _write(self, key: str, body: bytes) -> None:
        try:
            self.client.put_object(Bucket=BUCKET, Key=key, Body=body)
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            self.refusals[str(status)] += 1
            if status != 503:
                self.strange.append(str(error))
            self.last_failed = True
        except HTTPClientError as error:
            self.refusals["connection"] += 1
            self.strange.append(repr(error))
            self.last_failed = True
        else:
            self.written[key] = body
            self.last_failed = False
        if self.last_failed:
            self._over.wait(0.1)


def stop_backend(service: RunningService, entry: BackendEntry) -> None:
    os.kill(entry.pid, signal.SIGSTOP)


def kill_backend(service: RunningService, entry: BackendEntry) -> None:
    os.kill(entry.pid, signal.SIGKILL)


def kill_manager(service: RunningService, entry: BackendEntry) -> None:
    os.kill(entry.manager_pid, signal.SIGKILL)


def delete_mutex(service: RunningService, entry: BackendEntry) -> None:
    tables = _tables(service)
    tables.delete("ma:probed")
    tables.close()


@pytest.mark.parametrize("disturb", [stop_backend, kill_backend, kill_manager, delete_mutex])
def test_a_writing_client_sees_only_503s_that_end_and_loses_nothing(
    make_service: Callable[..., RunningService], disturb: Callable[[RunningService, BackendEntry], None]
) -> None:
    service = make_service(
        gateway__backend_seconds=3,
        pools__heartbeat_seconds=0.5,
        pools__heartbeat_timeout_seconds=1,
        pools__heartbeat_tolerance=2,
        pools__stop_seconds=4,
    )
    key = service.create_pool("probed")
    service.s3(key).create_bucket(Bucket=BUCKET)
    writer = Writer(service.s3(key, retries=1)).start()
    try:
        writer.wait_for_more(ENOUGH)
        before = backend_entry(service)
        assert before
        disturb(service, before)
        wait_until(lambda: _has_a_new_manager(service, before), "a new manager in charge")
        writer.wait_for_more(ENOUGH)
    finally:
        writer.stop()

    assert not writer.strange, f"{len(writer.strange)} answers that are not 503: {writer.strange[:3]}"
    check_contents(service, key, writer.written)
    wait_until(lambda: len(backends(service)) == 1, "exactly one backend")
    after = backend_entry(service)
    assert after and backends(service) == [after.pid]
    assert service.stop() == 0
    assert service.processes() == []


def check_contents(service: RunningService, key: PoolKey, written: dict[str, bytes]) -> None:
    client = service.s3(key)
    for name, body in written.items():
        assert client.get_object(Bucket=BUCKET, Key=name)["Body"].read() == body


def backend_entry(service: RunningService) -> BackendEntry | None:
    tables = _tables(service)
    text = tables.get("mn:probed")
    tables.close()
    return BackendEntry.from_json(text) if text else None


def backends(service: RunningService) -> list[int]:
    """Processes that serve this service's pools, be they running, stopped or forgotten."""
    return [pid for pid in service.processes() if _is_backend(pid)]


def _is_backend(pid: int) -> bool:
    words = words_of(Path(f"/proc/{pid}"))
    return bool(words) and words[0].endswith(b"weed") and b"server" in words


def _has_a_new_manager(service: RunningService, before: BackendEntry) -> bool:
    entry = backend_entry(service)
    return entry is not None and entry.manager_token != before.manager_token


def _tables(service: RunningService) -> Any:
    return open_tables(settings_module.restore((service.data / "run" / "settings.json").read_text()), service.data)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + RECOVERY_SECONDS
    while not condition():
        assert time.monotonic() < give_up, f"not within {RECOVERY_SECONDS:.0f} s: {what}"
        time.sleep(0.1)
