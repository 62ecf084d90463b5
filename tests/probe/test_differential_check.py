"""The differential probe finds what it is there to find, and nothing where there is nothing."""

from __future__ import annotations

import pytest
from backend_reading import Meaning
from differential_check import Checker, Logged, Reply, Trial
from odd_signing import sign_headers
from odd_world import DOMAIN, Sender, Sent, World, lane_buckets, lane_names
from recording_store import Arrival, RecordingStore
from requests_on_the_wire import Request, Signer

OWN, OTHER = lane_names(0)
STORE_KEY = Signer("store", "store-secret")
OWNER = Sender("readwrite", OWN, Signer("owner", "owner-secret"), reads=True, writes=True)
READER = Sender("readonly", OWN, Signer("reader", "reader-secret"), reads=True)
WRITER = Sender("writeonly", OWN, Signer("writer", "writer-secret"), writes=True)
FORGER = Sender("forger", OWN, Signer("owner", "guessed"), forged=True)
MINE, FOREIGN = "lane0-mine", "lane0-foreign"
PUT = Meaning("PutObject", "write", MINE, "k")
GET = Meaning("GetObject", "read", MINE, "k")
POST = Meaning("PostObject", "write", MINE, "k")
COPY = Meaning("CopyObject", "write", MINE, "k", source=(MINE, "s", ""))


def arrived(
    method: bytes, target: bytes, *headers: tuple[bytes, bytes], body: bytes = b"", pool: str = OWN
) -> tuple[Arrival, Reply]:
    """A request at the pool's store, signed with the credential that the store knows, and what it answers."""
    arrivals: list[Arrival] = []
    store = RecordingStore(pool, arrivals, domain=DOMAIN, spare=frozenset())
    path, _, query = target.partition(b"?")
    given = headers if any(name == b"host" for name, _ in headers) else ((b"host", b"store:80"), *headers)
    signed = sign_headers(STORE_KEY, Request(method, path, query, list(given), body))
    head, _, shown = store.answer(method, target, signed.headers, body).partition(b"\r\n\r\n")
    return arrivals[0], Reply(int(head[9:12]), head, shown)


def kinds(
    admitted: Meaning | None,
    came: tuple[Arrival, Reply],
    *events: Logged,
    sender: Sender = OWNER,
    payload: bytes = b"",
    status: int = 0,
) -> set[str]:
    world = World(b"gateway:80", OWN, OTHER, lane_buckets(0), (), (OWNER,))
    sent = Sent(0, sender, Request(b"GET", b"/"), payload, ["", ""])
    reply = came[1]._replace(status=status) if status else came[1]
    trial = Trial(sent, admitted, [came[0]], reply, events=list(events))
    return {finding.kind for finding in Checker(world, STORE_KEY).check(trial)}


def event(kind: str = "put", bucket: str = MINE, key: str = "k") -> Logged:
    return Logged(kind, OWN, bucket, key, "", "")


@pytest.mark.parametrize(
    ("admitted", "came", "events", "payload"),
    [
        (PUT, arrived(b"PUT", b"/lane0-mine/k", body=b"data"), [event()], b"data"),
        (GET, arrived(b"GET", b"/lane0-mine/k"), [], b""),
        (COPY, arrived(b"PUT", b"/lane0-mine/k", (b"x-amz-copy-source", b"/lane0-mine/s")), [event()], b""),
        (
            PUT._replace(operation="DeleteObject", key="ü;&"),
            arrived(b"DELETE", b"/lane0-mine/%C3%BC%3B%26"),
            [event("delete", key="ü;&")],
            b"",
        ),
        (PUT, arrived(b"HEAD", b"/lane0-mine/k"), [], b""),
        (POST, arrived(b"PUT", b"/lane0-mine/k", body=b"file"), [event()], b"file"),
    ],
    ids=["put", "get", "copy", "escaped key", "look of the gateway", "form"],
)
def test_requests_built_as_they_were_admitted_give_no_findings(
    admitted: Meaning, came: tuple[Arrival, Reply], events: list[Logged], payload: bytes
) -> None:
    # A look shows the client nothing: the reply is the gateway's own.
    own = (came[0], Reply(200, b"", b"")) if came[0].method == b"HEAD" else came
    assert kinds(admitted, own, *events, payload=payload) == set()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (b"?x;tagging", {"form, separator", "form, parameter", "other operation", "not logged", "logged, not made"}),
        (b"?x;retention", {"form, separator", "form, parameter", "other operation", "logged, not made"}),
        (b"?x;renameObject", {"form, separator", "form, parameter", "other operation", "logged, not made"}),
        (b"?x=1", {"form, parameter"}),
        (b"?tagging=%0A", {"form, line break"}),
        (b"?t%61gging", {"form, escapes", "other operation", "not logged", "logged, not made"}),
        (b"?tagging&acl", {"form, sub-resources", "form, parameter", "other operation", "logged, not made"}),
    ],
)
def test_a_query_that_a_store_reads_otherwise_is_found(query: bytes, found: set[str]) -> None:
    assert found <= kinds(PUT, arrived(b"PUT", b"/lane0-mine/k" + query), event())


@pytest.mark.parametrize(
    ("found", "came"),
    [
        ("other bucket", arrived(b"PUT", b"/k", (b"host", b"lane0-mine.s3.test."))),
        ("other bucket", arrived(b"PUT", b"/lane0-public/k")),
        ("other pool", arrived(b"PUT", b"/lane0-mine/k", pool=OTHER)),
        ("other key", arrived(b"PUT", b"/lane0-mine/k/")),
        ("form, escapes", arrived(b"PUT", b"/lane0-mine/%6b")),
        ("form, path", arrived(b"PUT", b"/lane0-mine/../lane0-mine/k")),
        ("form, header", arrived(b"PUT", b"/lane0-mine/k", (b"x-http-method-override", b"DELETE"))),
        ("form, header", arrived(b"PUT", b"/lane0-mine/k", (b"x-amz-acl", b"a"), (b"X-Amz-Acl", b"b"))),
        ("form, header", arrived(b"DELETE", b"/lane0-mine/k", (b"x-amz-tagging", b"a=b"))),
        ("other operation", arrived(b"DELETE", b"/lane0-mine/k")),
        ("other body", arrived(b"PUT", b"/lane0-mine/k", body=b"other data")),
        ("not logged", arrived(b"PUT", b"/lane0-mine/k")),
        ("read without right", arrived(b"PUT", b"/lane0-mine/k", (b"x-amz-copy-source", b"/lane0-foreign/s"))),
    ],
)
def test_another_request_than_was_admitted_is_found(found: str, came: tuple[Arrival, Reply]) -> None:
    assert found in kinds(PUT, came, payload=b"")


@pytest.mark.parametrize(
    ("found", "came"),
    [
        ("other operation", arrived(b"POST", b"/lane0-mine")),
        ("other operation", arrived(b"PUT", b"/lane0-mine")),
        ("other operation", arrived(b"PUT", b"/lane0-mine/k", (b"x-amz-copy-source", b"/lane0-mine/s"))),
        ("other key", arrived(b"PUT", b"/lane0-mine/other", body=b"file")),
        ("other body", arrived(b"PUT", b"/lane0-mine/k", body=b"--boundary")),
        ("form, header", arrived(b"PUT", b"/lane0-mine/k", (b"origin", b"http://there"), body=b"file")),
    ],
)
def test_a_form_that_arrives_as_anything_but_its_file_is_found(found: str, came: tuple[Arrival, Reply]) -> None:
    assert found in kinds(POST, came, payload=b"file")


def test_another_source_than_was_admitted_is_found() -> None:
    came = arrived(b"PUT", b"/lane0-mine/k", (b"x-amz-copy-source", b"/lane0-foreign/s"))
    assert {"other source", "other pool", "read without right"} <= kinds(COPY, came, event())


def test_what_must_not_arrive_at_all_is_found() -> None:
    came = arrived(b"PUT", b"/lane0-mine/k")
    assert "refused" in kinds(None, came, event())
    assert "write without right" in kinds(PUT, came, event(), sender=READER)
    assert "no right" in kinds(PUT, came, event(), sender=FORGER)
    assert "refused after the change" in kinds(PUT, came, event(), status=403)
    assert "no right" in kinds(GET, arrived(b"GET", b"/lane0-mine/k"), sender=WRITER)


def test_a_reply_with_other_data_than_was_asked_for_is_found() -> None:
    assert "other data" in kinds(GET, arrived(b"GET", b"/lane0-mine/k2"))
    assert "other data" in kinds(GET, arrived(b"GET", b"/lane0-mine/k", pool=OTHER))
    assert "read without right" in kinds(PUT, arrived(b"GET", b"/lane0-mine/k"), sender=WRITER)


def test_a_log_that_tells_something_else_is_found() -> None:
    came = arrived(b"PUT", b"/lane0-mine/k")
    assert kinds(PUT, came, event(key="k2")) == {"not logged", "logged, not made"}
    assert "log of another bucket" in kinds(PUT, came, event(bucket=FOREIGN))


def test_a_clients_own_credential_at_a_store_is_found() -> None:
    arrival, reply = arrived(b"PUT", b"/lane0-mine/k")
    path = Request(b"PUT", b"/lane0-mine/k", headers=[(b"host", b"store:80")])
    assert OWNER.signer is not None
    arrival.headers = sign_headers(OWNER.signer, path).headers
    assert kinds(PUT, (arrival, reply), event()) == {"credential"}
