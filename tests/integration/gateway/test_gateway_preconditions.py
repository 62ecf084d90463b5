"""Objects that a delete names are looked at by listing; a listing may only confirm, and never decides against one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from raw_http import Wire, request
from scripted_backend import LoneGateway, Store, Visit

KEYS = [f"key-{number:03}" for number in range(40)]
MODIFIED = "2023-11-14T22:13:20Z"
HEAD_MODIFIED = "Tue, 14 Nov 2023 22:13:20 GMT"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneGateway]:
    started = LoneGateway(tmp_path_factory.mktemp("looking") / "data", Store())
    yield started
    started.end()


@dataclass
class OddStore:
    """Holds `KEYS` with five bytes each. `left_out` are not listed, `mistaken` are listed with another ETag, and before
    each key so many `strangers`. `others` are not what they were. `page`, if set, answers every listing.
    """

    left_out: set[str] = field(default_factory=set)
    mistaken: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    strangers: int = 0
    page: bytes | None = None
    pages: int = 0
    heads: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def script(self, visit: Visit) -> None:
        while True:
            head = visit.head()
            length = re.search(rb"(?i)content-length: (\d+)", head)
            body = visit.body(int(length[1]) if length else 0)
            method, target = head.split(b" ")[:2]
            if method == b"HEAD":
                self._head(visit, target.decode().rpartition("/")[2])
            elif method == b"POST":
                self._delete(visit, body)
            else:
                self._list(visit, target.decode())

    def _head(self, visit: Visit, key: str) -> None:
        self.heads.append(key)
        size = 6 if key in self.others else 5
        fields = f'ETag: "e"\r\nContent-Length: {size}\r\nLast-Modified: {HEAD_MODIFIED}\r\n\r\n'
        visit.send(f"HTTP/1.1 200 OK\r\n{fields}".encode())

    def _delete(self, visit: Visit, body: bytes) -> None:
        keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
        self.deleted += keys
        answer = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        _answer(visit, f"<DeleteResult>{answer}</DeleteResult>".encode())

    def _list(self, visit: Visit, target: str) -> None:
        self.pages += 1
        limit = int(re.search(r"max-keys=(\d+)", target)[1])  # type: ignore[index]
        after = re.search(r"start-after=([^&]*)", target)[1]  # type: ignore[index]
        names = [
            name
            for key in KEYS
            for name in (*(f"{key[:-1]}{int(key[-1]) - 1}~{n:03}" for n in range(self.strangers)), key)
            if name > after and name not in self.left_out
        ]
        entries = "".join(self._entry(name) for name in names[:limit])
        is_truncated = str(len(names) > limit).lower()
        page = f"<ListBucketResult><IsTruncated>{is_truncated}</IsTruncated>{entries}</ListBucketResult>"
        _answer(visit, page.encode() if self.page is None else self.page)

    def _entry(self, name: str) -> str:
        etag = "mistaken" if name in self.mistaken else "e"
        size = 6 if name in self.others else 5
        return (
            f"<Contents><Key>{name}</Key><ETag>&quot;{etag}&quot;</ETag><Size>{size}</Size>"
            f"<LastModified>{MODIFIED}</LastModified></Contents>"
        )


def _answer(visit: Visit, body: bytes) -> None:
    visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def delete(gateway: LoneGateway, store: OddStore, keys: list[str] = KEYS) -> set[str]:
    """Asks for the deletion of those with five bytes and tells which were refused."""
    gateway.store.play(store.script)
    entries = "".join(
        f"<Object><Key>{key}</Key><ETag>&quot;e&quot;</ETag><Size>5</Size>"
        f"<UnmodifiedSince>{MODIFIED}</UnmodifiedSince></Object>"
        for key in keys
    )
    body = f"<Delete>{entries}</Delete>".encode()
    with Wire(gateway.url) as wire:
        answer = wire.ask(request(gateway.url, gateway.key, "POST", f"/{gateway.bucket}?delete=", body))
    assert answer.status == 200, answer.body
    return set(re.findall(r"<Error><Key>(.*?)</Key>.*?<Code>PreconditionFailed", answer.body.decode()))


def test_neighbours_are_looked_at_with_one_listing(gateway: LoneGateway) -> None:
    store = OddStore()
    assert delete(gateway, store) == set()
    assert (store.pages, store.heads, sorted(store.deleted)) == (1, [], KEYS)


def test_what_a_listing_leaves_out_or_shows_otherwise_is_asked_for(gateway: LoneGateway) -> None:
    store = OddStore(left_out=set(KEYS[3:6]), mistaken={KEYS[0], KEYS[39]})
    assert delete(gateway, store) == set()
    assert sorted(store.heads) == [KEYS[0], *KEYS[3:6], KEYS[39]]
    assert sorted(store.deleted) == KEYS


def test_only_the_object_itself_decides_that_it_is_another(gateway: LoneGateway) -> None:
    store = OddStore(others={KEYS[7], KEYS[20]})
    assert delete(gateway, store) == {KEYS[7], KEYS[20]}
    assert sorted(store.heads) == [KEYS[7], KEYS[20]]
    assert sorted(store.deleted) == sorted(set(KEYS) - {KEYS[7], KEYS[20]})


def test_a_few_strangers_between_the_keys_cost_another_page(gateway: LoneGateway) -> None:
    store = OddStore(strangers=3)
    assert delete(gateway, store) == set()
    assert sorted(store.deleted) == KEYS
    assert 1 < store.pages <= 4 and len(store.heads) < 8


def test_keys_that_lie_far_apart_are_asked_for_one_by_one(gateway: LoneGateway) -> None:
    store = OddStore(strangers=500)
    assert delete(gateway, store) == set()
    assert sorted(store.deleted) == KEYS
    assert store.pages <= 2 and len(store.heads) >= 38


@pytest.mark.parametrize("page", [b"", b"<nonsense", b"<Error/>", b"<ListBucketResult/>"])
def test_a_store_that_cannot_list_is_asked_for_every_object(gateway: LoneGateway, page: bytes) -> None:
    store = OddStore(page=page, others={KEYS[1]})
    assert delete(gateway, store) == {KEYS[1]}
    assert sorted(store.heads) == KEYS


def test_few_keys_are_not_worth_a_listing(gateway: LoneGateway) -> None:
    store = OddStore()
    assert delete(gateway, store, KEYS[:3]) == set()
    assert (store.pages, sorted(store.heads)) == (0, KEYS[:3])
