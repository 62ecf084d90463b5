"""Deletes in a pool's own store: the gateway decides, which is a server here that answers by script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace

from tidegate.adapters.s3_store import S3Store
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import NotFound
from tidegate.core.pending_deletes import Component, DataType, PendingDelete
from tidegate.core.records import Bucket
from tidegate.movement.deletion import Deleter, Result
from tidegate.movement.in_use import Owners
from tidegate.movement.pending_deletes import BelievedData
from tidegate.ports import Store

PENDING = PendingDelete(
    component=Component.VERSION,
    data_type=DataType.STORE,
    pool="pool",
    bucket="photos",
    bucket_uid="uid",
    key="a key",
    version_id="v1",
    sent_ns=1,
)
UPLOAD = PendingDelete(
    component=Component.UPLOAD,
    data_type=DataType.STORE,
    pool="pool",
    bucket="photos",
    bucket_uid="uid",
    key="a key",
    version_id="",
    upload_id="u1",
    sent_ns=1,
)


class Gateway(ThreadingHTTPServer):
    """Answers every DELETE with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.status = 204
        self.requests: list[str] = []


class _Answering(BaseHTTPRequestHandler):
    server: Gateway

    def do_DELETE(self) -> None:
        self.server.requests.append(self.path)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


class Pools:
    def __init__(self, store: Store) -> None:
        self._store = store

    def of_pool(self, pool: str) -> Store:
        if pool != "pool":
            raise NotFound(f"there is no pool {pool}")
        return self._store


class NoLocations:
    def store(self, name: str) -> Store:
        raise NotFound(f"there is no location {name}")

    def bucket(self, name: str) -> str:
        raise NotFound(f"there is no location {name}")

    def prefix(self, name: str) -> str:
        raise NotFound(f"there is no location {name}")


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    server = Gateway()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def deleter(tmp_path: Path, gateway: Gateway) -> Iterator[Deleter]:
    tables = SqliteTables(tmp_path / "tables.db")
    tables.put(Bucket.PREFIX + "photos", Bucket("photos", "pool", "uid", "none", 1.0).to_json())
    tables.put(Bucket.PREFIX + "anew", Bucket("anew", "pool", "other", "none", 1.0).to_json())
    store = S3Store(f"http://127.0.0.1:{gateway.server_port}", "key", "secret")
    yield Deleter(tables, Pools(store), NoLocations(), Owners(tables), BelievedData())  # type: ignore[arg-type]
    store.close()
    tables.close()


def outcome(deleter: Deleter, pending: PendingDelete) -> str | None:
    (result,) = deleter.results([pending])
    assert isinstance(result, Result)
    return result.outcome.value if result.outcome is not None else None


@pytest.mark.parametrize(
    ("status", "expected"), [(204, "deleted"), (409, "in-use"), (404, "not-there"), (503, None), (403, None)]
)
def test_the_gateway_deletes_an_original_or_says_that_it_is_in_use(
    deleter: Deleter, gateway: Gateway, status: int, expected: str | None
) -> None:
    gateway.status = status
    assert outcome(deleter, PENDING) == expected
    assert gateway.requests == ["/photos/a%20key?tidegate-original=&versionId=v1"]


@pytest.mark.parametrize("component", [Component.UPLOAD, Component.VERSION, Component.PLACEMENT])
def test_an_upload_is_left_to_its_client(deleter: Deleter, gateway: Gateway, component: Component) -> None:
    assert outcome(deleter, replace(UPLOAD, component=component)) == "not-matched"
    assert gateway.requests == []


@pytest.mark.parametrize(
    ("bucket", "uid", "pool", "expected"),
    [
        ("missing", "uid", "pool", "not-there"),
        ("anew", "uid", "pool", "not-matched"),
        ("photos", "uid", "another", "not-matched"),
    ],
)
def test_nothing_is_asked_of_the_store_for_a_bucket_that_is_not_the_one(
    deleter: Deleter, gateway: Gateway, bucket: str, uid: str, pool: str, expected: str
) -> None:
    pending = PendingDelete(
        component=Component.VERSION,
        data_type=DataType.STORE,
        pool=pool,
        bucket=bucket,
        bucket_uid=uid,
        key="k",
        version_id="v",
        sent_ns=1,
    )
    assert outcome(deleter, pending) == expected
    assert gateway.requests == []
