"""Which replies tell how the replication of their object stands, told from request, reply and records."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from gateway_records import Records

from tidegate.core.errors import Unavailable
from tidegate.core.events import Pairs
from tidegate.core.lifecycle.rules import Filter
from tidegate.core.placements import Placement
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.core.replication.rules import ReplicationRule, ReplicationRules
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.requests import read_headers, replication_status
from tidegate.gateway.requests.admission import Admission

TIME = "Last-Modified: Tue, 15 Oct 2030 10:00:00 GMT"
WRITTEN = 1_918_288_800.0
VERSION = "x-amz-version-id: v1"
REPLICA = "x-amz-meta-tidegate-component: replica"


class CountedTables:
    """Those of the records, counting what is read."""

    def __init__(self, records: Records, *, reads_at_once: bool) -> None:
        self._tables = records.tables
        self.reads_at_once = reads_at_once
        self.reads = 0

    def get(self, key: str) -> str | None:
        self.reads += 1
        return self._tables.get(key)

    def scan(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> list[tuple[str, str]]:
        self.reads += 1
        return self._tables.scan(prefix, after=after, limit=limit)


class Request:
    """A request for an object of a bucket, and what an exchange would have at hand."""

    def __init__(self, records: Records, rules: ReplicationRules | None, target: str, *, at_once: bool) -> None:
        self.admission: Admission = uvloop.run(records.admitted(records.head("GET", target, "p")))
        self.admission.replication = rules
        self.tables = CountedTables(records, reads_at_once=at_once)
        self.exchange: Any = SimpleNamespace(
            admitted=self.admission, gateway=self, made=None, tags=(), noted=None, request_id="R1", forward=lambda: None
        )
        self.loop = self

    async def run_in_executor(self, _: None, work: Any, *given: Any) -> Any:
        return work(*given)

    def line(self, *lines: str, status: int = 200, tags: Pairs = ()) -> str:
        """What is added to the head of the reply with these lines."""
        if not self.tables.reads_at_once and (work := read_headers.look_up(self.exchange, self.admission)):
            uvloop.run(work)
        self.exchange.tags = tags
        text = "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""])
        return read_headers.of_read(self.exchange, ResponseHead(text.encode(), to_head_request=False)).decode()


@pytest.fixture
def records(tmp_path: Any) -> Iterator[Records]:
    made = Records(tmp_path)
    made.add_pool("p")
    yield made
    made.close()


def rules(*, since: float = WRITTEN - 1, prefix: str = "", tags: Pairs = ()) -> ReplicationRules:
    return ReplicationRules(
        (ReplicationRule("r", 1, True, Filter(prefix, tags), "copies", ("near",), since=since),),
    )


def record(records: Records, version_id: str, *states: Status, is_replica: bool = False) -> None:
    uid = records.registry.bucket("p-bucket").uid
    sites = tuple(SiteState(f"s{number}", "copies", state, 1.0) for number, state in enumerate(states))
    made = ReplicationRecord("p", "p-bucket", uid, "k", version_id, 1, WRITTEN, sites=sites, is_replica=is_replica)
    records.tables.put(made.entry, made.to_json())


def shown(value: str) -> str:
    return f"x-amz-replication-status: {value}"


@pytest.fixture(params=[True, False], ids=["local tables", "tables behind a network"])
def at_once(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.mark.parametrize("target", ["/p-bucket/k", "/p-bucket/k?versionId=v1"])
@pytest.mark.parametrize("status", [200, 206])
@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((Status.PENDING,), "PENDING"),
        ((Status.COMPLETED, Status.COMPLETED), "COMPLETED"),
        ((Status.COMPLETED, Status.PENDING), "PENDING"),
        ((Status.FAILED, Status.PENDING), "FAILED"),
    ],
)
def test_a_read_tells_what_the_record_of_the_version_says(
    records: Records, at_once: bool, target: str, status: int, states: tuple[Status, ...], expected: str
) -> None:
    record(records, "v0", Status.FAILED)
    record(records, "v1", *states)
    request = Request(records, rules(), target, at_once=at_once)
    assert request.line(VERSION, TIME, status=status) == shown(expected)
    assert request.tables.reads == 1


def test_of_a_key_with_very_many_records_that_of_the_current_version_is_read(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(150):
        record(records, f"v{number:03}", Status.FAILED)
    record(records, "z", Status.COMPLETED)
    request = Request(records, rules(), "/p-bucket/k", at_once=False)

    async def current(*_: Any) -> str:
        return "z"

    monkeypatch.setattr(replication_status, "_current_version", current)
    assert request.line("x-amz-version-id: z", TIME) == shown("COMPLETED")
    assert len(request.exchange.noted) == 1


def test_the_null_version_has_a_record_of_its_own(records: Records, at_once: bool) -> None:
    record(records, "null", Status.COMPLETED)
    assert Request(records, rules(), "/p-bucket/k", at_once=at_once).line(TIME) == shown("COMPLETED")


@pytest.mark.parametrize(("since", "expected"), [(WRITTEN, shown("PENDING")), (WRITTEN + 1, "")])
def test_without_a_record_what_was_written_under_the_rules_is_pending(
    records: Records, at_once: bool, since: float, expected: str
) -> None:
    assert Request(records, rules(since=since), "/p-bucket/k", at_once=at_once).line(VERSION, TIME) == expected


def test_without_a_record_what_no_rule_matches_has_no_status(records: Records, at_once: bool) -> None:
    assert Request(records, rules(prefix="other/"), "/p-bucket/k", at_once=at_once).line(VERSION, TIME) == ""


def test_tags_decide_where_rules_ask_for_them(records: Records) -> None:
    request = Request(records, rules(tags=(("a", "1"),)), "/p-bucket/k", at_once=True)
    assert replication_status.needs_tags(request.admission)
    assert request.line(VERSION, TIME, tags=(("a", "1"), ("b", "2"))) == shown("PENDING")
    assert request.line(VERSION, TIME, tags=(("b", "2"),)) == ""


def test_a_replica_says_so_in_every_bucket(records: Records, at_once: bool) -> None:
    ruled, free = (Request(records, found, "/p-bucket/k", at_once=at_once) for found in (rules(), None))
    assert ruled.line(VERSION, TIME, REPLICA) == free.line(VERSION, TIME, REPLICA) == shown("REPLICA")
    record(records, "v1", is_replica=True)
    assert ruled.line(VERSION, TIME) == shown("REPLICA")


def test_a_copy_of_a_replica_that_is_replicated_itself_has_its_own_status(records: Records, at_once: bool) -> None:
    record(records, "v1", Status.PENDING)
    assert Request(records, rules(), "/p-bucket/k", at_once=at_once).line(VERSION, TIME, REPLICA) == shown("PENDING")


def test_a_bucket_without_rules_costs_no_look_at_the_tables(records: Records, at_once: bool) -> None:
    request = Request(records, None, "/p-bucket/k", at_once=at_once)
    assert request.line(VERSION, TIME) == "" and request.tables.reads == 0


@pytest.mark.parametrize("status", [304, 404, 412, 500])
def test_other_replies_have_no_status(records: Records, at_once: bool, status: int) -> None:
    record(records, "v1", Status.PENDING)
    assert Request(records, rules(), "/p-bucket/k", at_once=at_once).line(VERSION, TIME, REPLICA, status=status) == ""


def test_a_read_goes_on_when_the_status_cannot_be_told(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(key: str) -> str:
        raise Unavailable("the tables are away")

    request = Request(records, rules(), "/p-bucket/k", at_once=True)
    monkeypatch.setattr(request.tables, "get", fails)
    assert request.line(VERSION, TIME) == ""


def test_a_moved_object_has_the_status_of_its_version(records: Records, at_once: bool) -> None:
    uid = records.registry.bucket("p-bucket").uid

    def of(found: ReplicationRules | None, **more: Any) -> str:
        moved = Placement("i", "p", "p-bucket", uid, "k", "v1", "l", "d", 1, "e", "m", WRITTEN, "COLD", 1, **more)
        request = Request(records, found, "/p-bucket/k", at_once=at_once)
        return uvloop.run(replication_status.of_moved(request.exchange, request.admission, moved))

    assert (of(None), of(rules()), of(rules(since=WRITTEN + 1))) == ("", "PENDING", "")
    assert of(None, headers=(("X-Amz-Meta-Tidegate-Component", "replica"),)) == "REPLICA"
    record(records, "v1", Status.FAILED)
    assert of(rules()) == "FAILED"
