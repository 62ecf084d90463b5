"""A store that carries out late what the gateway asked for when an object moved: it replaces nothing that a client has
put since, and what is asked for again ends well."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import md5

import pytest
from raw_http import Answer, Wire, request
from running_service import PoolKey
from scripted_backend import LoneGateway, Store, Visit

from tidegate.core.copies import entry_of
from tidegate.core.placements import PLACEMENTS, STUB_HEADER, Placement
from tidegate.core.xml_writer import iso_time
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault

Stored = tuple[bytes, str, float]


class LateStore:
    """A bucket without versioning. `fates` say what becomes of the next requests that put something of the gateway's
    own: each is `answered`, `held` to be carried out later, carried out and `unanswered`, or `late`, which is after all
    that was held. `answers` are those to all requests that were carried out at once."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.fates: list[str] = []
        self.answers: list[int] = []
        self._held: list[Callable[[], int]] = []
        self._lock = threading.Lock()

    def carry_out(self) -> list[int]:
        """What was held, and how it ended."""
        with self._lock:
            held, self._held = self._held, []
            return [work() for work in held]

    def script(self, visit: Visit) -> None:
        while True:
            head = visit.head().decode()
            length = re.search(r"(?i)content-length: (\d+)", head)
            body = visit.body(int(length[1]) if length else 0)
            method, target = head.split(" ")[:2]
            key = target.partition("?")[0].removeprefix(f"/{LoneGateway.bucket}").lstrip("/")
            if method == "PUT":
                self._put(visit, key, head, body)
            elif method in ("HEAD", "GET") and key:
                self._show(visit, key, is_head=method == "HEAD")
            elif "versions" in target:
                _answer(visit, 200, self._listing())
            else:
                _answer(visit, 200, b"<VersioningConfiguration/>")

    def _put(self, visit: Visit, key: str, head: str, body: bytes) -> None:
        name = re.search(rf"(?i){STUB_HEADER}: (\S+)", head)
        match = re.search(r'(?i)if-match: "(\S+)"', head)

        def work() -> int:
            found = self.objects.get(key, (b"", "", 0.0))
            if match is not None and md5(found[0]).hexdigest() != match[1]:
                return 412
            self.objects[key] = (body, name[1] if name else "", time.time())
            return 200

        fate = self.fates.pop(0) if name and self.fates else "answered"
        if fate == "held":
            self._held.append(work)
        if fate == "late":
            self.carry_out()
        if fate != "held":
            status = work()
            self.answers.append(status)
        if fate in ("held", "unanswered"):
            raise EOFError
        _answer(visit, status, b"", f'ETag: "{md5(body).hexdigest()}"\r\n')

    def _show(self, visit: Visit, key: str, *, is_head: bool) -> None:
        if key not in self.objects:
            _answer(visit, 404, b"")
            return
        body, name, _ = self.objects[key]
        fields = f'ETag: "{md5(body).hexdigest()}"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n'
        fields += f"{STUB_HEADER}: {name}\r\n" if name else ""
        if is_head:
            visit.send(f"HTTP/1.1 200 OK\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode())
        else:
            _answer(visit, 206 if name else 200, body, fields)

    def _listing(self) -> bytes:
        entries = "".join(
            f"<Version><Key>{key}</Key><VersionId>null</VersionId><IsLatest>true</IsLatest>"
            f"<LastModified>{iso_time(int(at))}</LastModified><ETag>{md5(body).hexdigest()}</ETag>"
            f"<Size>{len(body)}</Size></Version>"
            for key, (body, _, at) in self.objects.items()
        )
        return f"<ListVersionsResult>{entries}</ListVersionsResult>".encode()


def _answer(visit: Visit, status: int, body: bytes, headers: str = "") -> None:
    visit.send(b"HTTP/1.1 %d -\r\n%sContent-Length: %d\r\n\r\n%s" % (status, headers.encode(), len(body), body))


@pytest.fixture
def store() -> LateStore:
    return LateStore()


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory, store: LateStore) -> Iterator[LoneGateway]:
    started = LoneGateway(tmp_path_factory.mktemp("late") / "data", Store(), "gateway.backend_seconds=30")
    started.store.play(store.script)
    yield started
    started.end()


def ask(gateway: LoneGateway, method: str, query: str = "", body: bytes = b"", **headers: str) -> Answer:
    key = gateway.key
    if query:
        registry = Registry(gateway.tables, Vault.open(gateway.data), gateway.data, gateway.settings)
        key = PoolKey(gateway.pool, *registry.service_key(gateway.pool, now=time.time()))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with Wire(gateway.url) as wire:
        return wire.ask(request(gateway.url, key, method, gateway.path("k", query), body, headers=named))


def place(gateway: LoneGateway) -> Answer:
    gateway.tables.put(entry_of("cold", "data"), "{}")
    asked = {"location": "cold", "data_key": "data", "storage_class": "COLD", "etag": md5(b"old").hexdigest()}
    return ask(gateway, "PUT", "tidegate-placement=", json.dumps(asked).encode())


def move_back(gateway: LoneGateway) -> Answer:
    return ask(gateway, "PUT", "tidegate-data=", b"old", x_amz_tidegate_data_key="data")


def outcome(answer: Answer) -> str:
    assert answer.status == 200, answer
    return str(json.loads(answer.body)["outcome"])


def test_a_stub_that_is_put_late_replaces_nothing_that_a_client_has_put_since(
    gateway: LoneGateway, store: LateStore
) -> None:
    assert ask(gateway, "PUT", body=b"old").status == 200
    store.fates = ["held"]
    assert place(gateway).status == 503
    assert ask(gateway, "PUT", body=b"new").status == 200
    assert store.carry_out() == [412]
    assert ask(gateway, "GET").body == b"new"


def test_a_stub_that_was_put_late_is_not_put_again(gateway: LoneGateway, store: LateStore) -> None:
    assert ask(gateway, "PUT", body=b"old").status == 200
    store.fates = ["held", "late"]
    assert place(gateway).status == 503
    assert outcome(place(gateway)) == "already"
    assert store.answers == [200, 412]
    assert store.objects["k"][0] == b""
    assert [Placement.from_json(text).has_stub for _, text in gateway.tables.scan(PLACEMENTS)] == [True]


def test_an_object_that_is_replaced_before_the_store_gets_its_stub_is_not_moved(
    gateway: LoneGateway, store: LateStore
) -> None:
    """As where another gateway writes, since the lease of this one has run out."""
    assert ask(gateway, "PUT", body=b"old").status == 200
    put = store._put

    def replace_first(visit: Visit, key: str, head: str, body: bytes) -> None:
        store.objects["k"] = (b"new", "", time.time())
        put(visit, key, head, body)

    store._put = replace_first  # type: ignore[method-assign]
    assert outcome(place(gateway)) == "changed"
    assert gateway.tables.scan(PLACEMENTS) == []
    assert ask(gateway, "GET").body == b"new"


def test_data_that_moves_back_late_replaces_nothing_that_a_client_has_put_since(
    gateway: LoneGateway, store: LateStore
) -> None:
    assert ask(gateway, "PUT", body=b"old").status == 200
    assert outcome(place(gateway)) == "placed"
    store.fates = ["held"]
    assert move_back(gateway).status == 503
    assert ask(gateway, "PUT", body=b"new").status == 200
    assert store.carry_out() == [412]
    assert ask(gateway, "GET").body == b"new"


def test_a_move_back_is_repeated_whose_answer_was_lost(gateway: LoneGateway, store: LateStore) -> None:
    assert ask(gateway, "PUT", body=b"old").status == 200
    assert outcome(place(gateway)) == "placed"
    store.fates = ["unanswered"]
    assert move_back(gateway).status == 503
    answers = [move_back(gateway).status]
    while answers[-1] == 503:  # the healer may have put the stub again meanwhile
        answers.append(move_back(gateway).status)
    assert answers[-1] == 200
    assert store.objects["k"][0] == b"old" and ask(gateway, "GET").body == b"old"
