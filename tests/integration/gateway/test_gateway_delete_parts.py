"""A multiple delete is carried out in parts, two at a time; whatever becomes of one, the other is seen through."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator

import pytest
from metadata_log import logged_events
from raw_http import Answer, Wire, request
from scripted_backend import LoneGateway, Script, Store, Visit

from tidegate.core.events import EventKind

KEYS = [f"key-{number:03}" for number in range(500)]
FIRST, SECOND = KEYS[:250], KEYS[250:]
PATIENCE_SECONDS = 90.0

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
    events = logged_events(gateway.settings, gateway.data)
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


FAILURES = {
    "refused": ("403 Forbidden", "AccessDenied"),
    "trouble": ("500 Oops", "InternalError"),
    "hung up": ("", "ServiceUnavailable"),
}


def fail(visit: Visit, failure: str) -> None:
    status, code = FAILURES[failure]
    if failure == "hung up":
        raise EOFError
    send(visit, status, f"<Error><Code>{code}</Code><Message>so it is</Message></Error>")


def deleted_keys(answer: Answer) -> list[str]:
    return sorted(re.findall(r"<Deleted><Key>(.*?)</Key>", answer.body.decode()))


def failed_keys(answer: Answer) -> dict[str, str]:
    """The code of each key that has an error."""
    return dict(re.findall(r"<Error><Key>(.*?)</Key><Code>(.*?)</Code><Message>.+?</Message>", answer.body.decode()))


@pytest.mark.parametrize("failure", FAILURES)
def test_each_key_gets_an_answer_though_a_part_failed(gateway: LoneGateway, failure: str) -> None:
    before = logged(gateway)
    failed = threading.Event()

    def answering(visit: Visit, keys: list[str]) -> None:
        if keys == FIRST:
            failed.set()
            fail(visit, failure)
        else:
            assert failed.wait(PATIENCE_SECONDS)
            deleted(visit, keys)

    answer = delete(gateway, answering)
    assert answer.status == 200
    assert deleted_keys(answer) == SECOND
    assert failed_keys(answer) == dict.fromkeys(FIRST, FAILURES[failure][1])
    assert logged(gateway) == sorted(before + SECOND)


def test_after_a_failure_no_more_parts_are_begun_and_their_keys_have_errors(gateway: LoneGateway) -> None:
    asked: list[str] = []
    lock = threading.Lock()

    def answering(visit: Visit, keys: list[str]) -> None:
        with lock:
            is_first = not asked
            asked.extend(keys)
        if is_first:
            deleted(visit, keys)
        else:
            send(visit, "403 Forbidden", "<Error><Code>AccessDenied</Code></Error>")

    many = [f"some-{number:03}" for number in range(1000)]
    answer = delete(gateway, answering, many)
    assert answer.status == 200
    done = deleted_keys(answer)
    assert len(done) == 250
    assert failed_keys(answer) == dict.fromkeys(sorted(set(many) - set(done)), "AccessDenied")
    assert len(asked) < len(many)


@pytest.mark.parametrize("failure", ["trouble", "hung up"])
def test_where_no_key_was_deleted_for_all_that_is_known_the_service_is_unavailable(
    gateway: LoneGateway, failure: str
) -> None:
    """Clients try again by themselves then. The refusal of the other part does not stand for the whole."""
    refused = threading.Event()

    def answering(visit: Visit, keys: list[str]) -> None:
        if keys == FIRST:
            assert refused.wait(PATIENCE_SECONDS)
            fail(visit, failure)
        else:
            refused.set()
            fail(visit, "refused")

    answer = delete(gateway, answering)
    assert (answer.status, answer.code) == (503, "ServiceUnavailable")


def test_keys_that_the_answer_leaves_out_have_errors(gateway: LoneGateway) -> None:
    answer = delete(gateway, lambda visit, keys: deleted(visit, keys[:1]), ["told", "untold"])
    assert (deleted_keys(answer), failed_keys(answer)) == (["told"], {"untold": "InternalError"})


def test_a_part_that_the_store_does_not_end_leaves_the_answers_of_the_others(gateway: LoneGateway) -> None:
    over = threading.Event()

    def answering(visit: Visit, keys: list[str]) -> None:
        if keys == FIRST:
            over.wait(PATIENCE_SECONDS)
        else:
            deleted(visit, keys)

    answer = delete(gateway, answering)
    over.set()
    assert deleted_keys(answer) == SECOND
    assert failed_keys(answer) == dict.fromkeys(FIRST, "ServiceUnavailable")


def test_where_everything_is_refused_the_refusal_is_the_answer_and_all_turns_are_free(gateway: LoneGateway) -> None:
    asked: list[str] = []

    def answering(visit: Visit, keys: list[str]) -> None:
        asked.extend(keys)
        send(visit, "403 Forbidden", "<Error><Code>AccessDenied</Code></Error>")

    many = [f"many-{number:03}" for number in range(1000)]
    answer = delete(gateway, answering, many)
    assert (answer.status, answer.code) == (403, "AccessDenied")
    assert sorted(asked) == many[: len(asked)]
    assert len(asked) in (250, 500)
    assert delete(gateway, deleted, many).status == 200


def test_where_nothing_could_be_done_at_all_the_service_is_unavailable(gateway: LoneGateway) -> None:
    """The store breaks off while it is asked about the objects, before any delete is sent."""

    def answering(visit: Visit, keys: list[str]) -> None:
        raise EOFError

    gateway.store.play(script(answering))
    body = b"<Delete><Object><Key>k</Key><Size>1</Size></Object></Delete>"
    with Wire(gateway.url) as wire:
        answer = wire.ask(request(gateway.url, gateway.key, "POST", f"/{gateway.bucket}?delete=", body))
    assert (answer.status, answer.code) == (503, "ServiceUnavailable")
    assert gateway.store.asked(b"POST") == 0
