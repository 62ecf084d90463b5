"""The HTTP API and the pages, on an API process of their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_process import Api, serving

from tidegate.assembly import open_topics
from tidegate.core.events import Event, EventKind
from tidegate.ports import Record


def routes(api: Api) -> list[tuple[str, str]]:
    described = httpx.get(f"{api.url}/openapi.json").json()
    return [(method.upper(), path) for path, found in described["paths"].items() for method in found]


def test_every_route_but_the_open_ones_needs_the_token(api: Api) -> None:
    protected = [(method, path) for method, path in routes(api) if path.startswith("/api/")]
    assert len(protected) > 20
    with api.client(token="") as anonymous:
        for method, path in protected:
            for token, status, error in (
                ("", 401, "Unauthorized"),
                ("wrong", 403, "Forbidden"),
                ("é", 403, "Forbidden"),
            ):
                headers = {b"Authorization": f"Bearer {token}".encode()} if token else {}
                reply = anonymous.request(method, path, headers=headers)
                assert (reply.status_code, reply.json()["error"]) == (status, error), f"{method} {path}"


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/healthz", "/metrics"])
def test_open_routes_need_no_token(api: Api, path: str) -> None:
    assert httpx.get(f"{api.url}{path}").status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_nothing_from_elsewhere(api: Api, path: str) -> None:
    page = httpx.get(f"{api.url}{path}")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert re.findall(r"<script|<link|<img|@import|url\(|\bsrc\s*=", page.text) == []
    assert all(link.startswith("/") for link in re.findall(r'href="([^"]*)"', page.text))


def test_the_api_page_lists_every_route(api: Api) -> None:
    page = httpx.get(f"{api.url}/docs").text
    for method, path in routes(api):
        assert f"<b>{method}</b> <code>{path}</code>" in page


def test_the_status_page_shows_states_and_no_names(api: Api, pool: dict[str, Any]) -> None:
    page = httpx.get(f"{api.url}/").text
    assert "Pools" in page
    assert pool["pool"] not in page
    assert pool["access_key"] not in page


def test_every_operation_is_described(api: Api) -> None:
    described = httpx.get(f"{api.url}/openapi.json").json()
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], f"{method} {path}"
            assert operation["tags"], f"{method} {path}"


def test_a_pool_lives_from_creation_to_deletion(client: httpx.Client, pool: dict[str, Any]) -> None:
    path = f"/api/v1/pools/{pool['pool']}"
    shown = client.get(path).json()
    assert shown["name"] == pool["pool"]
    assert shown in client.get("/api/v1/pools").json()
    assert client.patch(path, json={"online": False}).json()["state"] == "DISABLED"
    assert client.patch(path, json={"online": True}).json()["online"] is True
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_an_expiry_is_set_left_alone_and_taken_away(client: httpx.Client, pool: dict[str, Any]) -> None:
    path = f"/api/v1/pools/{pool['pool']}"
    when = "2099-01-31T12:00:00Z"
    assert client.patch(path, json={"expires_at": when}).json()["expires_at"] == when
    assert client.patch(path, json={"online": True}).json()["expires_at"] == when
    assert client.patch(path, json={"expires_at": None}).json()["expires_at"] is None


def test_a_secret_is_in_the_answer_to_its_creation_only(client: httpx.Client, pool: dict[str, Any]) -> None:
    assert len(pool["secret_key"]) == 40
    path = f"/api/v1/pools/{pool['pool']}"
    for get in (path, f"{path}/keys", "/api/v1/pools"):
        assert pool["secret_key"] not in client.get(get).text


def test_keys_are_created_listed_and_deleted(client: httpx.Client, pool: dict[str, Any]) -> None:
    path = f"/api/v1/pools/{pool['pool']}/keys"
    created = client.post(path, json={"policy": "readonly"})
    assert created.status_code == 201
    key = created.json()["access_key"]
    assert {item["access_key"] for item in client.get(path).json()} == {pool["access_key"], key}
    assert client.delete(f"/api/v1/keys/{key}").status_code == 204
    assert client.delete(f"/api/v1/keys/{key}").status_code == 404


def test_buckets_are_created_opened_listed_and_deleted(client: httpx.Client, pool: dict[str, Any]) -> None:
    name = f"bucket-of-{pool['pool']}"
    created = client.post("/api/v1/buckets", json={"name": name, "pool": pool["pool"]})
    assert created.status_code == 201
    opened = client.put(f"/api/v1/buckets/{name}/policy", json={"policy": "public"}).json()
    assert opened["policy"] == "public"
    assert client.get(f"/api/v1/buckets/{name}").json() == opened
    assert client.get("/api/v1/buckets", params={"pool": pool["pool"]}).json() == [opened]
    assert opened in client.get("/api/v1/buckets").json()
    assert client.delete(f"/api/v1/buckets/{name}").status_code == 204
    assert client.get(f"/api/v1/buckets/{name}").status_code == 404


def test_a_user_is_denied_and_allowed(client: httpx.Client, pool: dict[str, Any]) -> None:
    path = f"/api/v1/users/{pool['owner']}"
    assert client.put(path, json={"permitted": False}).json()["permitted"] is False
    assert client.put(path, json={"permitted": True}).json()["permitted"] is True
    assert pool["owner"] in [user["name"] for user in client.get("/api/v1/users").json()]


def test_stopping_and_resetting_a_sleeping_pool_is_harmless(client: httpx.Client, pool: dict[str, Any]) -> None:
    path = f"/api/v1/pools/{pool['pool']}"
    assert client.post(f"{path}/stop").status_code == 204
    assert client.post(f"{path}/reset").status_code == 200


def test_a_taken_name_is_409(client: httpx.Client, pool: dict[str, Any]) -> None:
    reply = client.post("/api/v1/pools", json={"name": pool["pool"]})
    assert (reply.status_code, reply.json()["error"]) == (409, "AlreadyExists")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/v1/pools", {"name": "Not A Name"}, 400),
        ("POST", "/api/v1/pools", {"name": "a", "backend": "unheard-of"}, 400),
        ("POST", "/api/v1/pools", {}, 422),
        ("POST", "/api/v1/pools", {"name": "a", "unknown": 1}, 422),
        ("POST", "/api/v1/pools", {"name": 5}, 422),
        ("POST", "/api/v1/pools", [], 422),
        ("POST", "/api/v1/pools", {"name": "x" * 300}, 422),
        ("POST", "/api/v1/pools/nothing/keys", {"policy": "readonly"}, 404),
        ("POST", "/api/v1/pools/nothing/keys", {"policy": "all"}, 422),
        ("POST", "/api/v1/pools/nothing/start", None, 404),
        ("POST", "/api/v1/pools/nothing/stop", None, 404),
        ("POST", "/api/v1/buckets", {"name": "b-1", "pool": "nothing"}, 404),
        ("GET", "/api/v1/buckets?pool=nothing", None, 404),
        ("GET", "/api/v1/metalog?limit=0", None, 422),
        ("GET", "/api/v1/metalog?limit=1001", None, 422),
        ("GET", "/api/v1/metalog?after=x", None, 400),
        ("GET", "/api/v1/nothing", None, 404),
        ("DELETE", "/api/v1/pools", None, 405),
    ],
)
def test_errors_have_one_format(client: httpx.Client, method: str, path: str, body: Any, status: int) -> None:
    reply = client.request(method, path, json=body)
    assert reply.status_code == status
    assert set(reply.json()) == {"error", "message"}
    assert reply.json()["message"]


def test_a_body_that_is_not_json_is_refused(client: httpx.Client) -> None:
    reply = client.post("/api/v1/pools", content=b"{", headers={"Content-Type": "application/json"})
    assert (reply.status_code, reply.json()["error"]) == (422, "InvalidInput")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused(client: httpx.Client, chunked: bool) -> None:
    body = b'{"name": "' + b"a" * 100_000 + b'"}'
    content = iter([body]) if chunked else body
    reply = client.post("/api/v1/pools", content=content, headers={"Content-Type": "application/json"})
    assert (reply.status_code, reply.json()["error"]) == (413, "TooLarge")


def test_the_metadata_log_is_read_in_pages_and_from_its_end(api: Api, client: httpx.Client) -> None:
    topics = open_topics(api.settings, api.directory.path)
    events = [
        Event(
            ts_ns=number, operation=EventKind.PUT, pool="p", bucket=f"b{number % 2}", bucket_uid="u", key=f"k:{number}"
        )
        for number in range(1, 11)
    ]
    topics.append(api.settings.metalog.topic, [Record(event.key, event.to_bytes()) for event in events])
    topics.close()
    first = client.get("/api/v1/metalog", params={"limit": 6}).json()
    second = client.get("/api/v1/metalog", params={"limit": 6, "after": first["next"]}).json()
    assert [event["ts_ns"] for event in first["events"] + second["events"]] == list(range(1, 11))
    newest = client.get("/api/v1/metalog", params={"limit": 2, "newest": True, "bucket": "b0"}).json()
    assert [event["ts_ns"] for event in newest["events"]] == [8, 10]


def test_metrics_show_pools_and_topics(client: httpx.Client, pool: dict[str, Any]) -> None:
    text = client.get("/metrics").text
    assert 'tidegate_pools{state="' in text
    assert 'tidegate_topic_records{topic="metadata-log"}' in text
    assert 'tidegate_api_requests_total{status="2xx"}' in text
    assert pool["pool"] not in text


def test_metrics_ask_for_the_token_when_they_are_not_open(tmp_path: Path) -> None:
    for closed in serving(tmp_path / "data", "api.metrics_open=false"):
        assert httpx.get(f"{closed.url}/metrics").status_code == 401
        with closed.client() as client:
            assert client.get("/metrics").status_code == 200
