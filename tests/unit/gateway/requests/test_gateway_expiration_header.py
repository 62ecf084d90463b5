"""Which replies say when their object expires, told from request, reply and event alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import uvloop
from gateway_records import Records

from tidegate.core.events import Event, EventKind, Pairs
from tidegate.core.lifecycle.rules_xml import parse_lifecycle
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.requests import expiration
from tidegate.gateway.requests.admission import Admission

SECOND = 1_000_000_000
MODIFIED = "Last-Modified: Tue, 15 Oct 2030 10:00:00 GMT"
NOON_NS = 1_918_296_000 * SECOND  # 2030-10-15T12:00:00Z


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Records]:
    made = Records(tmp_path_factory.mktemp("expiration"))
    made.add_pool("p")
    yield made
    made.close()


def admitted(
    records: Records, method: str, target: str, where: str = "<Filter/>", *, rule_id: str = "a/b é", **headers: str
) -> Admission:
    """A request for an object in a bucket whose rules expire what the filter matches after a day."""
    admission = uvloop.run(records.admitted(records.head(method, target, "p", **headers)))
    rule = f"<Rule><ID>{rule_id}</ID>{where}<Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
    admission.rules = parse_lifecycle(f"<LifecycleConfiguration>{rule}</LifecycleConfiguration>".encode())
    return admission


def reply(*lines: str, status: int = 200) -> ResponseHead:
    text = "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""])
    return ResponseHead(text.encode(), to_head_request=False)


def made(kind: EventKind = EventKind.PUT, size: int = 1, tags: Pairs = ()) -> Event:
    return Event(NOON_NS, kind, "p", "p-bucket", "uid", key="k", size=size, tags=tags)


def line_of(admission: Admission, head: ResponseHead, event: Event | None = None, tags: Pairs = ()) -> bytes:
    """What the operation adds to the head of its reply."""
    more = admission.operation.reply_headers
    return more(SimpleNamespace(admitted=admission, made=event, tags=tags), head) if more is not None else b""


def wants_tags(admission: Admission) -> bool:
    return expiration.needs_tags(admission)


def sized(greater: int, less: int) -> str:
    inner = f"<ObjectSizeGreaterThan>{greater}</ObjectSizeGreaterThan><ObjectSizeLessThan>{less}</ObjectSizeLessThan>"
    return f"<Filter><And>{inner}</And></Filter>"


EXPECTED = b'x-amz-expiration: expiry-date="Thu, 17 Oct 2030 00:00:00 GMT", rule-id="a%2Fb%20%C3%A9"'


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("status", [200, 206])
def test_a_read_tells_the_expiry_of_what_was_stored_then(records: Records, method: str, status: int) -> None:
    admission = admitted(records, method, "/p-bucket/k")
    assert line_of(admission, reply(MODIFIED, "Content-Length: 1", status=status)) == EXPECTED


@pytest.mark.parametrize("status", [204, 304, 403, 404, 416])
def test_a_reply_that_shows_no_object_tells_nothing(records: Records, status: int) -> None:
    admission = admitted(records, "GET", "/p-bucket/k")
    assert line_of(admission, reply(MODIFIED, status=status)) == b""


def test_a_read_of_a_version_by_its_id_tells_nothing(records: Records) -> None:
    admission = admitted(records, "GET", "/p-bucket/k?versionId=v")
    assert line_of(admission, reply(MODIFIED, "Content-Length: 1")) == b""


@pytest.mark.parametrize("line", ["Last-Modified: yesterday", "Last-Modified: ", "X: y"])
def test_a_store_that_does_not_tell_the_time_is_believed_nothing(records: Records, line: str) -> None:
    admission = admitted(records, "GET", "/p-bucket/k")
    assert line_of(admission, reply(line, "Content-Length: 1")) == b""


def test_the_size_of_a_part_is_not_the_size_of_the_object(records: Records) -> None:
    part = ["Content-Length: 5", "Content-Range: bytes 0-4/1000"]
    matching = admitted(records, "GET", "/p-bucket/k", sized(999, 1001))
    assert line_of(matching, reply(MODIFIED, *part, status=206)) == EXPECTED
    other = admitted(records, "GET", "/p-bucket/k", sized(4, 6))
    assert line_of(other, reply(MODIFIED, *part, status=206)) == b""


def test_a_change_tells_the_expiry_of_what_its_event_says(records: Records) -> None:
    admission = admitted(records, "PUT", "/p-bucket/k", sized(999, 1001), content_length="5")
    assert line_of(admission, reply(), made(size=1000)) == EXPECTED
    assert line_of(admission, reply(), made(size=5)) == b""
    tag = "<Filter><Tag><Key>a</Key><Value>1</Value></Tag></Filter>"
    tagged = admitted(records, "PUT", "/p-bucket/k", tag, content_length="5")
    assert line_of(tagged, reply(), made(tags=(("a", "1"), ("b", "2")))) == EXPECTED
    assert line_of(tagged, reply(), made(tags=(("a", "2"),))) == b""


@pytest.mark.parametrize("kind", sorted(set(EventKind) - {EventKind.PUT}))
def test_a_change_that_makes_no_object_tells_nothing(records: Records, kind: EventKind) -> None:
    admission = admitted(records, "DELETE", "/p-bucket/k")
    assert line_of(admission, reply(), made(kind)) == b""


def test_no_rules_no_header(records: Records) -> None:
    admission = admitted(records, "GET", "/p-bucket/k")
    admission.rules = None
    assert line_of(admission, reply(MODIFIED)) == b""
    assert not wants_tags(admission)


def test_tags_are_asked_for_only_where_a_rule_goes_by_them(records: Records) -> None:
    tag = "<Filter><Tag><Key>a</Key><Value>1</Value></Tag></Filter>"
    for method in ("GET", "HEAD"):
        assert wants_tags(admitted(records, method, "/p-bucket/k", tag))
        assert not wants_tags(admitted(records, method, "/p-bucket/k"))


def test_no_rule_id_can_break_out_of_the_header(records: Records) -> None:
    admission = admitted(records, "GET", "/p-bucket/k", rule_id='&#13;&#10;Evil: "1"')
    line = line_of(admission, reply(MODIFIED, "Content-Length: 1"))
    assert re.fullmatch(rb'[^\r\n]+ rule-id="[A-Za-z0-9%._~-]+"', line)
