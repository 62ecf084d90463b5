"""Passes, simulations and the lifecycle page over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from api_process import Api

from tidegate.assembly import open_tables, open_topics
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import LIFECYCLE, ActionKind
from tidegate.core.lifecycle.rules_xml import parse_lifecycle
from tidegate.core.lifecycle.tasks import AuditRecord, ObjectTask, Outcome
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.buckets.bucket_list import BucketList, ListedBucket
from tidegate.lifecycle.passes.clock_guard import SEEN
from tidegate.lifecycle.passes.pass_records import BucketReport, PassReport, PassReports, PassStatus
from tidegate.lifecycle.topics import create_topics

RULE = "<Rule><ID>r</ID><Filter/><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
RULES = f"<LifecycleConfiguration>{RULE}</LifecycleConfiguration>"


@pytest.fixture
def bucket(api: Api, client: httpx.Client, pool: dict[str, Any]) -> str:
    """With a rule, a pass that looked at it, and an audit record with a hostile key."""
    name = f"rules-of-{pool['pool']}"
    client.post("/api/v1/buckets", json={"name": name, "pool": pool["pool"]}).raise_for_status()
    tables, topics = open_tables(api.settings, api.directory.path), open_topics(api.settings, api.directory.path)
    try:
        uid = Bucket.from_json(tables.get(Bucket.PREFIX + name) or "").uid
        tables.put(LIFECYCLE + uid, parse_lifecycle(RULES.encode()).to_json())
        BucketList(tables).refresh(ListedBucket("owner", uid, name))
        detail = BucketReport(name, uid, problem="the store refuses", outcomes={"BLOCKED": 1})
        report = PassReport(f"pass-{name}", "spark", "schedule", 10**18, 1)
        PassReports(tables).put(report.ended(10**18 + 2 * 10**9, PassStatus.BLOCKED, [detail]))
        create_topics(topics)
        task = ObjectTask(
            Effect.DELETE, "owner", name, "<script>\n", "", uid, "pass", ActionKind.EXPIRATION_DAYS, "r", "r/x", 1, 1, 1
        )
        AuditTrail(topics).append(
            [AuditRecord(outcome=Outcome.BLOCKED, at_ns=10**18, task=task, worker="w", reason="refused")]
        )
    finally:
        tables.close()
        topics.close()
    return name


def test_a_pass_is_asked_for_and_seen_waiting(client: httpx.Client, bucket: str) -> None:
    reply = client.post("/api/v1/passes", json={"bucket": bucket, "dry_run": True})
    assert reply.status_code == 202
    request = reply.json()
    assert (request["bucket"], request["dry_run"], request["engine"]) == (bucket, True, "")
    current = client.get("/api/v1/passes/current").raise_for_status().json()
    assert request in current["waiting"] and current["running"] is None
    assert client.get(f"/api/v1/passes/{request['id']}").status_code == 404


def test_passes_are_listed_and_shown(client: httpx.Client, bucket: str) -> None:
    (listed,) = [view for view in client.get("/api/v1/passes?limit=500").json() if view["id"] == f"pass-{bucket}"]
    assert (listed["status"], listed["outcomes"]) == ("blocked", {"BLOCKED": 1})
    shown = client.get(f"/api/v1/passes/pass-{bucket}?entries=5").raise_for_status().json()
    assert shown["details"][0]["problem"] == "the store refuses"
    assert (shown["plan"], shown["entries"]) == ([], [])


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"bucket": "no-such-bucket"}, 404, "NotFound"),
        ({"engine": "steam"}, 422, "InvalidInput"),
        ({"wait": True}, 422, "InvalidInput"),
    ],
)
def test_a_pass_that_makes_no_sense_is_refused(
    client: httpx.Client, body: dict[str, object], status: int, error: str
) -> None:
    reply = client.post("/api/v1/passes", json=body)
    assert (reply.status_code, reply.json()["error"]) == (status, error)


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ("<x/>", "MalformedXML"),
        ("", "MissingRequestBodyError"),
        (RULES.replace(">1<", ">0<"), "InvalidArgument"),
        ({"Rules": [{"Status": "Enabled", "Filter": {}}]}, "InvalidRequest"),
        ({"Rules": []}, "MalformedXML"),
    ],
)
def test_rules_to_simulate_are_refused_with_the_code_of_put(
    client: httpx.Client, bucket: str, rules: object, error: str
) -> None:
    reply = client.post("/api/v1/lifecycle/simulate", json={"bucket": bucket, "rules": rules})
    assert (reply.status_code, reply.json()["error"]) == (400, error)


def test_a_simulation_needs_a_bucket_and_a_gateway(client: httpx.Client, bucket: str) -> None:
    missing = client.post("/api/v1/lifecycle/simulate", json={"bucket": "no-such-bucket", "rules": RULES})
    assert (missing.status_code, missing.json()["error"]) == (404, "NotFound")
    alone = client.post("/api/v1/lifecycle/simulate", json={"bucket": bucket, "rules": RULES})
    assert (alone.status_code, alone.json()["error"]) == (503, "Unavailable")


@pytest.fixture
def resumed(client: httpx.Client) -> Iterator[None]:
    """Other tests of the session want to go on."""
    yield
    client.post("/api/v1/lifecycle/resume", json={}).raise_for_status()


def test_lifecycle_is_stopped_seen_stopped_and_resumed(
    api: Api, client: httpx.Client, bucket: str, resumed: None
) -> None:
    def page() -> str:
        return httpx.get(f"{api.url}/lifecycle", auth=("admin", api.token)).text

    assert client.get("/api/v1/lifecycle").raise_for_status().json()["stopped"] is False
    assert "tidegate_s3_lifecycle_stopped 0.0" in client.get("/metrics").text
    one = client.post("/api/v1/lifecycle/stop", json={"bucket": bucket}).raise_for_status().json()
    assert bucket in [stop["bucket"] for stop in one["stopped_buckets"]] and one["stopped"] is False
    assert f"Lifecycle is stopped in bucket {bucket}." in page()
    assert bucket not in httpx.get(f"{api.url}/").text
    everything = client.post("/api/v1/lifecycle/stop", json={}).raise_for_status().json()
    assert everything["stopped"] is True and everything["stopped_since"]
    assert "Lifecycle is stopped since" in page() and "Lifecycle is stopped since" in httpx.get(f"{api.url}/").text
    assert "tidegate_s3_lifecycle_stopped 1.0" in client.get("/metrics").text
    refused = client.post("/api/v1/passes", json={})
    assert (refused.status_code, refused.json()["error"]) == (409, "Conflict")
    assert client.post("/api/v1/lifecycle/resume", json={}).json()["stopped"] is False
    client.post("/api/v1/lifecycle/resume", json={"bucket": bucket}).raise_for_status()
    assert "Lifecycle is stopped" not in page()
    assert client.post("/api/v1/lifecycle/stop", json={"bucket": "no-such-bucket"}).status_code == 404


def test_a_clock_that_is_not_believed_is_seen_and_confirmed(api: Api, client: httpx.Client) -> None:
    tables = open_tables(api.settings, api.directory.path)
    tables.put(SEEN, str(10**18))
    tables.put("lifecycle/clock-problems/machine", "it is wrong", expires_in=60)
    try:
        assert client.get("/api/v1/lifecycle").json()["clock_problems"] == {"machine": "it is wrong"}
        page = httpx.get(f"{api.url}/lifecycle", auth=("admin", api.token)).text
        assert "No pass begins on machine: it is wrong." in page
        assert "a clock is not believed" in httpx.get(f"{api.url}/").text
        assert "tidegate_s3_lifecycle_clock_problems 1.0" in client.get("/metrics").text
        assert client.post("/api/v1/passes", json={}).status_code == 409
        seen = client.post("/api/v1/lifecycle/confirm-clock").raise_for_status().json()["clock_seen"]
        assert seen > "2026" and client.post("/api/v1/passes", json={}).status_code == 202
    finally:
        tables.delete("lifecycle/clock-problems/machine")
        tables.close()


def test_the_log_is_told_in_numbers(client: httpx.Client) -> None:
    view = client.get("/api/v1/metalog/statistics?top=3").raise_for_status().json()
    assert view["topic"]["name"] == "metadata-log" and view["table"]["files"] == 0


def test_the_lifecycle_page_asks_for_the_token_as_a_password(api: Api, bucket: str) -> None:
    for auth in (None, ("admin", "wrong"), ("admin", ""), (api.token, "x")):
        reply = httpx.get(f"{api.url}/lifecycle", auth=auth)
        assert reply.status_code == 401 and bucket not in reply.text
        assert reply.headers["www-authenticate"].startswith("Basic")
    for header in ("Basic", "Basic ???", "Basic /////w==", f"Bearer {api.token}"):
        assert httpx.get(f"{api.url}/lifecycle", headers={"Authorization": header}).status_code == 401


def test_the_lifecycle_page_shows_buckets_passes_and_records(api: Api, bucket: str) -> None:
    reply = httpx.get(f"{api.url}/lifecycle", auth=("admin", api.token))
    assert reply.status_code == 200
    assert f"<td>{bucket}</td>" in reply.text
    assert f"{bucket}: the store refuses" in reply.text
    assert "<td>&lt;script&gt;\n</td>" in reply.text and "<script" not in reply.text
    assert re.findall(r"<link|<img|@import|url\(|\bsrc\s*=", reply.text) == []


def test_the_status_page_tells_of_passes_without_names(api: Api, bucket: str) -> None:
    page = httpx.get(f"{api.url}/").text
    assert "<td>blocked</td>" in page and "No pass runs" in page
    assert bucket not in page
