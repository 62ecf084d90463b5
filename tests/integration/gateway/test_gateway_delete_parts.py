"""A multiple delete is carried out in parts, two at a time; whatever becomes of one, the other is seen through."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from raw_http import Answer, Wire, request
from scripted_backend import LoneGateway, Script, Store, Visit

from tidegate.assembly import open_topics
from tidegate.core.events import Event, EventKind

KEYS = [f"key-{number:03}" for number in range(500)]
FIRST, SECOND = KEYS[:250], KEYS[250:]
PATIENCE_SECONDS = 30.0

Answering = Callable[[Visit, list[str]], None]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneGateway]:
    started = LoneGateway(tmp_path_factory.mktemp("parts") / "data", Store())
    yield started
    started.end()


def script(answering: Answering) -> Script:
    def play(visit: Visit) -> None:
        while True:
            length = re.search(rb"(?i)content-length: (\d+)", visit.head())
            body = visit.body(int(length[1]) if length else 0)
            answering(visit, re.findall(r"<Key>(.*?)</Key>", body.decode()))

    return play


def deleted(visit: Visit, keys: list[str]) -> None:
    answer = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
    send(visit, "200 OK", f"<DeleteResult>{answer}</DeleteResult>")


def send(visit: Visit, status: str, body: str) -> None:
    visit.send(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())


def delete(gateway: LoneGateway, answering: Answering, keys: list[str] = KEYS) -> Answer:
    gateway.store.play(script(answering))
    entries = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    with Wire(gateway.url) as wire:
        body = f"<Delete>{entries}</Delete>".encode()
        return wire.ask(request(gateway.url, gateway.key, "POST", f"/{gateway.bucket}?delete=", body))


def logged(gateway: LoneGateway) -> list[str]:
    """The keys of the deletes in the log that are of the second part; the healer looks into the first."""
    with closing(open_topics(gateway.settings, gateway.data)) as topics:
        topic = gateway.settings.metalog.topic
        events = [
            Event.from_bytes(message.value)
            for partition, (first, end) in enumerate(topics.bounds(topic))
            for message in (topics.read(topic, partition, first, end - first) if end > first else [])
        ]
    return sorted(event.key for event in events if event.operation is EventKind.DELETE and event.key in SECOND)


def test_two_parts_are_at_the_store_at_the_same_time(gateway: LoneGateway) -> None:
    both = threading.Barrier(2)
    parts: list[list[str]] = []

    def answering(visit: Visit, keys: list[str]) -> None:
        parts.append(keys)
        both.wait(PATIENCE_SECONDS)
        deleted(visit, keys)

    answer = delete(gateway, answering)
    assert answer.status == 200
    assert sorted(re.findall(r"<Key>(.*?)</Key>", answer.body.decode())) == KEYS
    assert sorted(parts) == [FIRST, SECOND]


@pytest.mark.parametrize("failure", ["refused", "trouble", "hung up"])
def test_what_a_part_did_is_in_the_log_though_the_other_failed(gateway: LoneGateway, failure: str) -> None:
    before = logged(gateway)
    failed = threading.Event()

    def answering(visit: Visit, keys: list[str]) -> None:
        if keys == FIRST:
            failed.set()
            if failure == "hung up":
                raise EOFError
            status, code = ("403 Forbidden", "AccessDenied") if failure == "refused" else ("500 Oops", "InternalError")
            send(visit, status, f"<Error><Code>{code}</Code></Error>")
        else:
            assert failed.wait(PATIENCE_SECONDS)
            deleted(visit, keys)

    answer = delete(gateway, answering)
    assert answer.status == (403 if failure == "refused" else 503)
    assert logged(gateway) == sorted(before + SECOND)


def test_after_a_failure_no_more_parts_are_begun_and_all_turns_are_free(gateway: LoneGateway) -> None:
    asked: list[str] = []

    def answering(visit: Visit, keys: list[str]) -> None:
        asked.extend(keys)
        send(visit, "403 Forbidden", "<Error><Code>AccessDenied</Code></Error>")

    many = [f"many-{number:03}" for number in range(1000)]
    assert delete(gateway, answering, many).status == 403
    assert sorted(asked) == many[: len(asked)]
    assert len(asked) in (250, 500)
    assert delete(gateway, deleted, many).status == 200
