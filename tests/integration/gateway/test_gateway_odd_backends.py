"""Between a client and a store that misbehaves: nothing is taken for what it is not."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from raw_http import Answer, Wire, request, request_head, until
from scripted_backend import LoneGateway, Script, Store, Visit

from tidegate.core.sigv4 import UNSIGNED_PAYLOAD

MIB = 1 << 20
OK = b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 0\r\n\r\n'


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneGateway]:
    started = LoneGateway(tmp_path_factory.mktemp("lone") / "data", Store())
    yield started
    started.end()


def answering(*replies: bytes) -> Script:
    """Answers one request after another on a connection, each with the next reply; the last for all that follow."""

    def script(visit: Visit) -> None:
        left = list(replies)
        while True:
            head = visit.head()
            length = re.search(rb"(?i)content-length: (\d+)", head)
            visit.body(int(length[1]) if length else 0)
            visit.send(left.pop(0) if len(left) > 1 else left[0])

    return script


def put(gateway: LoneGateway, wire: Wire, key: str = "k", body: bytes = b"x") -> Answer:
    return wire.ask(request(gateway.url, gateway.key, "PUT", gateway.path(key), body))


def get(gateway: LoneGateway, wire: Wire, key: str = "k") -> Answer:
    return wire.ask(request(gateway.url, gateway.key, "GET", gateway.path(key)))


# --- what browsers hear --------------------------------------------------------------------------


def test_a_store_hears_of_no_origin_and_tells_browsers_nothing(gateway: LoneGateway) -> None:
    told = b"HTTP/1.1 200 OK\r\naccess-control-allow-origin: *\r\nX-Kept: 1\r\nAccess-Control-Max-Age: 5\r\n"
    gateway.store.play(answering(told + b"Content-Length: 2\r\n\r\nhi"))
    gateway.store.heads.clear()
    for headers in ({}, {"Origin": "http://there"}):
        with Wire(gateway.url) as wire:
            answer = wire.ask(request(gateway.url, gateway.key, "GET", gateway.path("k"), headers=headers))
        assert (answer.status, answer.body, answer.headers["x-kept"]) == (200, b"hi", "1")
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert gateway.store.heads and not [head for head in gateway.store.heads if b"origin" in head.lower()]


# --- what the store gets -------------------------------------------------------------------------


def head_of(raw: bytes) -> tuple[str, dict[str, str]]:
    """The request line and the headers."""
    first, *lines = raw[: raw.index(b"\r\n\r\n")].decode("latin-1").split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines)


def test_the_store_gets_a_request_that_the_gateway_wrote(gateway: LoneGateway) -> None:
    seen: list[bytes] = []

    def script(visit: Visit) -> None:
        while True:
            seen.append(visit.head() + visit.body(4))
            visit.send(OK)

    gateway.store.play(script)
    target = gateway.path("%E2%82%AC%20~/x", "x-id=PutObject&b=&a=%20")
    headers = {"X-Amz-Meta-A": "1", "X-Amz-Acl": "private", "X-Amz-Tagging": "b=%20&a=1", "Content-Type": "text/x"}
    sent = request(gateway.url, gateway.key, "PUT", target, b"body", headers=headers)
    extra = b"Expect: 100-continue\r\nConnection: close, TE\r\nTE: trailers\r\nKeep-Alive: 1\r\nX-Odd:\t v  \r\n"
    sent = sent.replace(b"\r\n\r\n", b"\r\n" + extra + b"\r\n", 1).replace(b"%E2%82%AC%20~/x", b"%e2%82%ac%20~%2Fx")
    with Wire(gateway.url) as wire:
        assert wire.ask(sent).status == 200
    (arrived,) = seen
    line, found = head_of(arrived)
    assert line == f"PUT {gateway.path('%E2%82%AC%20~/x')} HTTP/1.1"
    assert arrived.endswith(b"\r\n\r\nbody")
    authorization = found.pop("authorization")
    assert "Credential=ADMIN/" in authorization and gateway.key.access_key not in authorization
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-tagging," in authorization
    del found["x-amz-date"]
    assert found == {
        "host": gateway.store.address,
        "content-length": "4",
        "content-type": "text/x",
        "x-amz-meta-a": "1",
        "x-amz-tagging": "b=+&a=1",
        "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
    }


def test_connections_to_the_store_are_used_again(gateway: LoneGateway) -> None:
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    gateway.store.play(answering(OK, body, chunked, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", body))
    with Wire(gateway.url) as wire:
        assert put(gateway, wire).status == 200
        assert get(gateway, wire).body == b"hi"
        assert get(gateway, wire).body == b"hi"
        assert get(gateway, wire).status == 404
        assert get(gateway, wire).body == b"hi"
    assert gateway.store.visits == 1


def test_a_large_body_is_completed_only_when_all_of_it_is_here(gateway: LoneGateway) -> None:
    size = 4 * MIB
    got: list[int] = []

    def script(visit: Visit) -> None:
        visit.head()
        while sum(got) < size:
            got.append(len(visit.some()))
        visit.send(OK)

    gateway.store.play(script)
    head = request_head(gateway.url, gateway.key, "PUT", gateway.path("k"), payload=UNSIGNED_PAYLOAD, length=size)
    with Wire(gateway.url) as wire:
        wire.send(head + b"x" * (size - 1))
        until(lambda: sum(got) >= size - 16 * 1024 - 1)
        assert sum(got) < size, "the end is held back"
        assert wire.ask(b"x").status == 200
    assert sum(got) == size


def test_a_head_never_reaches_the_store_without_a_byte_of_its_body(gateway: LoneGateway) -> None:
    """A connection that ends right after the head would be an empty object to some stores."""
    seen: list[bytes] = []

    def script(visit: Visit) -> None:
        seen.append(visit.some())
        visit.some()

    gateway.store.play(script)
    head = request_head(gateway.url, gateway.key, "PUT", gateway.path("k"), payload=UNSIGNED_PAYLOAD, length=4 * MIB)
    with Wire(gateway.url) as wire:
        wire.send(head)
        until(lambda: gateway.store.visits == 1)
        assert seen == []
        wire.send(b"x")
        until(lambda: bool(seen))
    assert seen[0].startswith(b"PUT ") and seen[0].endswith(b"\r\n\r\nx")


# --- what the store says -------------------------------------------------------------------------


def test_an_interim_reply_of_the_store_is_not_the_final_one(gateway: LoneGateway) -> None:
    gateway.store.play(answering(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + OK))
    with Wire(gateway.url) as wire:
        assert put(gateway, wire).status == 200


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_reply_that_only_the_connections_end_ends_is_whole_at_the_client(gateway: LoneGateway, method: str) -> None:
    def script(visit: Visit) -> None:
        visit.head()
        visit.send(b'HTTP/1.1 200 OK\r\nETag: "e"\r\n\r\nuntil the end')

    gateway.store.play(script)
    with Wire(gateway.url) as wire:
        answer = get(gateway, wire) if method == "GET" else put(gateway, wire, body=b"")
        assert (answer.status, answer.body) == (200, b"until the end")
        assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
        b"HTTP/1.1 200 OK\r\nContent-",
    ],
    ids=["nothing", "garbage", "bad length", "upgrade", "endless head", "half a head"],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_reply_that_is_none_is_a_503(gateway: LoneGateway, reply: bytes, method: str) -> None:
    def script(visit: Visit) -> None:
        visit.head()
        visit.send(reply)

    gateway.store.play(script)
    with Wire(gateway.url) as wire:
        answer = get(gateway, wire) if method == "GET" else put(gateway, wire, body=b"")
        assert (answer.status, answer.code) == (503, "ServiceUnavailable")
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("size", [1000, 4 * MIB], ids=["copied", "spliced"])
def test_a_reply_that_breaks_off_is_not_taken_for_whole(gateway: LoneGateway, size: int) -> None:
    def script(visit: Visit) -> None:
        visit.head()
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * (size // 2))

    gateway.store.play(script)
    with Wire(gateway.url) as wire, pytest.raises(ConnectionError):
        get(gateway, wire)


def test_a_chunked_reply_that_breaks_off_is_not_taken_for_whole(gateway: LoneGateway) -> None:
    def script(visit: Visit) -> None:
        visit.head()
        visit.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")

    gateway.store.play(script)
    with Wire(gateway.url) as wire, pytest.raises(ConnectionError):
        get(gateway, wire)


def test_a_store_that_refuses_in_the_middle_of_an_upload_is_heard(gateway: LoneGateway) -> None:
    denial = b"<Error><Code>EntityTooLarge</Code></Error>"

    def script(visit: Visit) -> None:
        visit.head()
        visit.body(MIB)
        visit.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b" % (len(denial), denial))
        visit.connection.recv(1)

    gateway.store.play(script)
    head = request_head(gateway.url, gateway.key, "PUT", gateway.path("k"), payload=UNSIGNED_PAYLOAD, length=64 * MIB)
    with Wire(gateway.url) as wire:
        answer = wire.ask(head + b"x" * (2 * MIB))
        assert (answer.status, answer.code) == (400, "EntityTooLarge")
        assert answer.headers["connection"] == "close"
        assert wire.closed


def test_a_success_that_holds_an_error_is_an_error(gateway: LoneGateway) -> None:
    error = b"<Error><Code>InvalidPart</Code><Message>no such part</Message></Error>"
    gateway.store.play(answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(error), error)))
    parts = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>"
    with Wire(gateway.url) as wire:
        answer = wire.ask(request(gateway.url, gateway.key, "POST", gateway.path("k", "uploadId=u"), parts))
        assert (answer.status, answer.code) == (400, "InvalidPart")


def test_a_store_that_speaks_unasked_is_not_asked_on_that_connection_again(gateway: LoneGateway) -> None:
    honest = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhonest"
    hung_up = threading.Event()

    def script(visit: Visit) -> None:
        visit.head()
        visit.send(honest)
        asked.wait(30)
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ninjected")
        try:
            visit.some()
        finally:
            hung_up.set()

    asked = threading.Event()
    gateway.store.play(script, answering(honest))
    with Wire(gateway.url) as wire:
        assert get(gateway, wire).body == b"honest"
        asked.set()
        assert hung_up.wait(30)
        assert get(gateway, wire).body == b"honest"


def test_more_than_the_reply_says_is_never_passed_on(gateway: LoneGateway) -> None:
    gateway.store.play(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhonest" + b"HTTP/1.1 200 injected\r\n"))
    with Wire(gateway.url) as wire:
        wire.send(request(gateway.url, gateway.key, "GET", gateway.path("k")))
        assert b"injected" not in wire.rest()


# --- connections that were closed meanwhile -------------------------------------------------------


def closing_when_asked_again(visit: Visit) -> None:
    """Serves one request; at the next one it hangs up, as a server does whose idle time is over just then."""
    head = visit.head()
    length = re.search(rb"(?i)content-length: (\d+)", head)
    visit.body(int(length[1]) if length else 0)
    visit.send(OK)
    visit.head()


def test_a_read_on_a_connection_that_was_closed_meanwhile_is_tried_again(gateway: LoneGateway) -> None:
    gateway.store.play(closing_when_asked_again, answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"))
    with Wire(gateway.url) as wire:
        assert get(gateway, wire).status == 200
        assert get(gateway, wire).body == b"hi"
    assert gateway.store.asked(b"GET /scripted-bucket/k ") == 3


def test_a_change_that_the_store_may_have_made_is_not_tried_again(gateway: LoneGateway) -> None:
    gateway.store.play(closing_when_asked_again, answering(OK))
    with Wire(gateway.url) as wire:
        assert put(gateway, wire).status == 200
        assert put(gateway, wire).status == 503
    assert gateway.store.asked(b"PUT /scripted-bucket/k ") == 2


# --- many clients ---------------------------------------------------------------------------------


def test_a_low_limit_of_descriptors_is_no_limit_of_connections(gateway: LoneGateway) -> None:
    gateway.store.play(answering(OK))
    with ExitStack() as idle:
        for _ in range(500):
            idle.enter_context(Wire(gateway.url))
        with Wire(gateway.url) as wire:
            assert put(gateway, wire).status == 200


# --- a store that is silent ----------------------------------------------------------------------


def test_a_store_that_does_not_answer_is_purged(gateway: LoneGateway) -> None:
    def silent(visit: Visit) -> None:
        visit.head()
        visit.connection.recv(1)

    gateway.store.play(silent)
    with Wire(gateway.url) as wire:
        answer = put(gateway, wire, body=b"")
        assert (answer.status, answer.code) == (503, "ServiceUnavailable")
    until(lambda: gateway.tables.get("ma:" + gateway.pool) is None and gateway.tables.get("ep:" + gateway.pool) is None)
    gateway.settle()


def test_a_store_that_was_slow_once_and_answers_a_simple_question_is_kept(gateway: LoneGateway) -> None:
    def slow_to_change(visit: Visit) -> None:
        while not visit.head().startswith(b"PUT"):
            visit.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        visit.some()

    gateway.store.play(slow_to_change)
    with Wire(gateway.url) as wire:
        assert put(gateway, wire, body=b"").status == 503
        until(lambda: any(head.startswith(b"GET / ") for head in gateway.store.heads))
        assert get(gateway, wire).status == 403
    assert gateway.tables.get("ep:" + gateway.pool) == gateway.store.address
