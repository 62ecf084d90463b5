"""A store that broke off may still be at work: what it does late gets into the log, once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import md5

import pytest
from metadata_log import logged_events
from raw_http import Answer, Wire, request, until
from scripted_backend import LoneGateway, Store, Visit

from tidegate.core.events import Event, EventKind
from tidegate.core.xml_writer import iso_time
from tidegate.gateway.changes import intents

# Time for two looks of the healer at each change.
HEALING_SECONDS = 15
AN_HOUR = 3600
NO_UPLOADS = b"<ListMultipartUploadsResult/>"
NO_TAGS = b"<Tagging><TagSet/></Tagging>"


@dataclass(eq=False)
class LateChange:
    key: str
    looks: int
    make: Callable[[], None]


@dataclass
class SlowStore:
    """A bucket without versioning. `breaks_off` holds, for the next changes, after how many looks of the healer each is
    made though its connection broke at once; None is for those that never are. Other changes are answered."""

    breaks_off: list[int | None] = field(default_factory=list)
    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    late: list[LateChange] = field(default_factory=list)

    def grow_old(self) -> None:
        """The healer looks back a little further than to the beginning of a change, but not so far."""
        self.objects = {key: (body, at - AN_HOUR) for key, (body, at) in self.objects.items()}

    def script(self, visit: Visit) -> None:
        while True:
            head = visit.head()
            length = re.search(rb"(?i)content-length: (\d+)", head)
            body = visit.body(int(length[1]) if length else 0)
            method, target = head.decode().split(" ")[:2]
            key = target.partition("?")[0].split("/", 2)[-1]
            if method in ("PUT", "DELETE"):
                self._change(visit, key, body if method == "PUT" else None)
            elif method == "HEAD":
                self._head(visit, key)
            elif "versions" in target:
                self._make_late(target)
                _answer(visit, self._listing())
            else:
                _answer(visit, NO_UPLOADS if "uploads" in target else NO_TAGS)

    def _change(self, visit: Visit, key: str, body: bytes | None) -> None:
        def make() -> None:
            if body is None:
                self.objects.pop(key, None)
            else:
                self.objects[key] = (body, time.time())

        if self.breaks_off:
            looks = self.breaks_off.pop(0)
            if looks == 0:
                make()
            elif looks is not None:
                self.late.append(LateChange(key, looks, make))
            raise EOFError
        make()
        _answer(visit, b"", f'ETag: "{md5(body).hexdigest()}"\r\n' if body is not None else "")

    def _make_late(self, listing: str) -> None:
        """Changes of the key that is looked at, which was looked at often enough."""
        for change in [change for change in self.late if f"prefix={change.key}" in listing]:
            if change.looks == 0:
                self.late.remove(change)
                change.make()
            change.looks -= 1

    def _head(self, visit: Visit, key: str) -> None:
        if key not in self.objects:
            visit.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        body, _ = self.objects[key]
        fields = f'ETag: "{md5(body).hexdigest()}"\r\nContent-Length: {len(body)}\r\n\r\n'
        visit.send(f"HTTP/1.1 200 OK\r\n{fields}".encode())

    def _listing(self) -> bytes:
        entries = "".join(
            f"<Version><Key>{key}</Key><VersionId>null</VersionId><IsLatest>true</IsLatest>"
            f"<LastModified>{iso_time(int(at))}</LastModified><ETag>{md5(body).hexdigest()}</ETag>"
            f"<Size>{len(body)}</Size></Version>"
            for key, (body, at) in self.objects.items()
        )
        return f"<ListVersionsResult>{entries}</ListVersionsResult>".encode()


def _answer(visit: Visit, body: bytes, headers: str = "") -> None:
    visit.send(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (headers.encode(), len(body), body))


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LoneGateway]]:
    started: list[LoneGateway] = []

    def make(store: SlowStore, healing_seconds: float = HEALING_SECONDS) -> LoneGateway:
        data = tmp_path_factory.mktemp("late") / "data"
        started.append(
            LoneGateway(data, Store(), "gateway.backend_seconds=30", f"gateway.healing_seconds={healing_seconds}")
        )
        started[-1].store.play(store.script)
        return started[-1]

    yield make
    for gateway in started:
        gateway.end()


def ask(gateway: LoneGateway, method: str, key: str, body: bytes = b"") -> Answer:
    with Wire(gateway.url) as wire:
        return wire.ask(request(gateway.url, gateway.key, method, gateway.path(key), body))


def left_open(gateway: LoneGateway) -> int:
    files = list((gateway.data / "run" / "intents").iterdir())
    return sum(len(intents.parse(path.read_bytes())) for path in files)


def wait_until_healed(gateway: LoneGateway) -> None:
    until(lambda: left_open(gateway) == 0, 60, "changes stay open")


def logged(gateway: LoneGateway, key: str) -> list[Event]:
    return [event for event in logged_events(gateway.settings, gateway.data) if event.key == key]


def test_changes_that_a_store_makes_long_after_it_broke_off_are_in_the_log_once(
    start: Callable[..., LoneGateway],
) -> None:
    store = SlowStore()
    gateway = start(store)
    assert ask(gateway, "PUT", "removed", b"1").status == 200
    assert ask(gateway, "PUT", "kept", b"1").status == 200
    store.grow_old()
    store.breaks_off = [1, 1, None]
    assert ask(gateway, "PUT", "made", b"22").status == 503
    assert ask(gateway, "DELETE", "removed").status == 503
    assert ask(gateway, "PUT", "kept", b"333").status == 503
    assert left_open(gateway) == 3
    wait_until_healed(gateway)
    made = [event for event in logged(gateway, "made") if event.operation is EventKind.PUT]
    assert [(event.size, event.etag) for event in made] == [(2, md5(b"22").hexdigest())]
    assert logged(gateway, "made")[-1] == made[-1]
    assert [event.operation for event in logged(gateway, "removed")][-1] is EventKind.DELETE
    assert [event.operation for event in logged(gateway, "removed")].count(EventKind.DELETE) == 1
    assert [event.operation for event in logged(gateway, "kept")].count(EventKind.PUT) == 1


def test_what_clients_did_meanwhile_is_not_told_again(start: Callable[..., LoneGateway]) -> None:
    store = SlowStore(breaks_off=[None, 2])  # each of the two has the key looked at once
    gateway = start(store)
    for body in (b"1", b"22"):
        assert ask(gateway, "PUT", "again", body).status == 503
    assert ask(gateway, "PUT", "again", b"333").status == 200
    wait_until_healed(gateway)
    puts = [event.size for event in logged(gateway, "again") if event.operation is EventKind.PUT]
    assert puts == [3, 2], "the late change took the place of the other"


def test_when_another_backend_has_taken_over_nothing_is_waited_for(start: Callable[..., LoneGateway]) -> None:
    store = SlowStore(breaks_off=[0])
    gateway = start(store, healing_seconds=3600)
    assert ask(gateway, "PUT", "k", b"1").status == 503
    gateway.settle("another token")
    wait_until_healed(gateway)
    assert [event.operation for event in logged(gateway, "k")] == [EventKind.PUT]
