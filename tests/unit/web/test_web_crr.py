"""The routes of Backbeat's API: failures and their retry, pauses and metrics; and what is refused.

Nothing replicates here: what the tables hold was written by the tests.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from api_process import Api
from failed_versions import WRITTEN, fail, make_bucket, record_of, store

from tidegate.assembly import open_tables, open_topics
from tidegate.core.records import Pool
from tidegate.core.replication.failed_keys import FailedKey
from tidegate.core.replication.messages import REPLICATION_AUDIT_TOPIC, STATUS_TOPIC, StatusUpdate
from tidegate.core.replication.records import SiteState, Status
from tidegate.ports import Tables
from tidegate.replication.topics import create_replication_topics, send
from tidegate.topic_pages import appended_since

_numbers = itertools.count(1)
MODIFIED = "2023-11-14T22:13:20.250Z"


@pytest.fixture
def tables(api: Api) -> Iterator[Tables]:
    with closing(open_tables(api.settings, api.directory.path)) as opened:
        yield opened


@pytest.fixture
def bucket(tables: Tables) -> str:
    name = f"replicated-{next(_numbers)}"
    make_bucket(tables, name, f"uid-of-{name}")
    return name


@pytest.fixture
def site(client: httpx.Client) -> Iterator[str]:
    name = f"site-{next(_numbers)}"
    location = {"name": name, "endpoint": "http://127.0.0.1:9", "bucket": "replicas", "prefix": "tidegate/"}
    made = client.post("/api/v1/locations", json={**location, "access_key": "KEY", "secret_key": "hush-hush"})
    assert made.status_code == 201, made.text
    yield name
    assert client.delete(f"/api/v1/locations/{name}").is_success


def failed_at(tables: Tables, bucket: str, key: str, site: str = "paris", version: str = "v1") -> FailedKey:
    failed = FailedKey(bucket, key, version, site)
    fail(tables, failed, uid=f"uid-of-{bucket}")
    return failed


def told(failed: FailedKey, **more: str) -> dict[str, Any]:
    shown = dict(zip(("Bucket", "Key", "VersionId", "StorageClass"), failed, strict=True))
    return {**shown, "Size": 7, "LastModified": MODIFIED, **more}


def test_failures_are_told_with_exactly_the_fields_of_backbeat(
    client: httpx.Client, tables: Tables, bucket: str
) -> None:
    failed = failed_at(tables, bucket, "dir/a:b é\n🌊")
    for query in (
        {"bucket": bucket},
        {"bucket": bucket, "sitename": "paris"},
        {"bucket": bucket, "key": failed.key},
        {"bucket": bucket, "key": failed.key, "version-id": "v1"},
    ):
        answer = client.get("/_/crr/failed", params=query).raise_for_status()
        assert answer.json() == {"IsTruncated": False, "Versions": [told(failed)]}
    for query in ({"bucket": bucket, "sitename": "oslo"}, {"bucket": bucket, "key": "dir/a"}, {"bucket": "nowhere"}):
        answer = client.get("/_/crr/failed", params=query).raise_for_status()
        assert answer.json() == {"IsTruncated": False, "Versions": []}


def test_a_long_list_comes_in_pages(client: httpx.Client, tables: Tables, bucket: str) -> None:
    keys = [f"{number:04}" for number in range(1003)]
    for key in keys:
        failed_at(tables, bucket, key)
    first = client.get("/_/crr/failed", params={"bucket": bucket}).raise_for_status().json()
    assert list(first) == ["IsTruncated", "NextMarker", "Versions"]
    assert (first["IsTruncated"], len(first["Versions"])) == (True, 1000)
    path = f"/_/crr/failed?bucket={bucket}&marker={first['NextMarker']}"  # as it is: nothing needs an escape
    second = client.get(path).raise_for_status().json()
    assert list(second) == ["IsTruncated", "Versions"]
    assert [version["Key"] for version in first["Versions"] + second["Versions"]] == keys
    # A whole page can be sent back as it was listed, and the list is empty after.
    for page in (first, second):
        answer = client.post("/_/crr/failed", json=page["Versions"]).raise_for_status().json()
        assert answer == [{**version, "ReplicationStatus": "PENDING"} for version in page["Versions"]]
    left = client.get("/_/crr/failed", params={"bucket": bucket}).raise_for_status().json()
    assert left == {"IsTruncated": False, "Versions": []}


def test_a_retry_answers_with_what_it_retried_and_nothing_else(
    client: httpx.Client, tables: Tables, bucket: str
) -> None:
    failed, other = failed_at(tables, bucket, "a:b"), failed_at(tables, bucket, "other")
    arrived = FailedKey(bucket, "arrived", "v1", "paris")
    state = SiteState("paris", "replicas", Status.COMPLETED, 1.0)
    store(tables, record_of(arrived, state, uid=f"uid-of-{bucket}"))
    names = ("Bucket", "Key", "VersionId", "StorageClass")
    body = [dict(zip(names, each, strict=True)) for each in (failed, arrived, failed._replace(site="oslo"))]
    answer = client.post("/_/crr/failed", content=json.dumps(body)).raise_for_status()
    assert answer.json() == [told(failed, ReplicationStatus="PENDING")]
    assert client.post("/_/crr/failed", json=body).raise_for_status().json() == []
    assert client.post("/_/crr/failed", json=[]).raise_for_status().json() == []
    listed = client.get("/_/crr/failed", params={"bucket": bucket}).raise_for_status().json()
    assert listed["Versions"] == [told(other)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not a list of versions"),
        (b"{", "not a list of versions"),
        (b"null", "Expected `array`"),
        (b"{}", "Expected `array`"),
        (b'"text"', "Expected `array`"),
        (b"[1]", "Expected `object`"),
        (b"[[]]", "Expected `object`"),
        (b"[{}]", "required field `Bucket`"),
        (b'[{"Bucket": "b", "Key": "k", "VersionId": "v"}]', "required field `StorageClass`"),
        (b'[{"Bucket": "b", "Key": "k", "VersionId": null, "StorageClass": "s"}]', "$[0].VersionId"),
        (b'[{"Bucket": 1, "Key": "k", "VersionId": "v", "StorageClass": "s"}]', "$[0].Bucket"),
        (b'[{"Bucket": "b", "Key": "", "VersionId": "v", "StorageClass": "s"}]', "Key of the version at $[0] is empty"),
        (b'[{"Bucket": "b", "Key": "\xff", "VersionId": "v", "StorageClass": "s"}]', "not a list of versions"),
        (b"[" * 100_000, "not a list of versions"),
    ],
)
def test_a_malformed_body_is_refused_with_a_reason(client: httpx.Client, body: bytes, reason: str) -> None:
    answer = client.post("/_/crr/failed", content=body)
    assert answer.status_code == 400, answer.text
    assert answer.json().keys() == {"error", "message"}
    assert answer.json()["error"] == "InvalidInput"
    assert reason in answer.json()["message"]


def test_names_that_no_table_can_hold_are_refused(client: httpx.Client, bucket: str) -> None:
    surrogate = b'[{"Bucket": "%b", "Key": "\\ud800", "VersionId": "v", "StorageClass": "s"}]' % bucket.encode()
    answer = client.post("/_/crr/failed", content=surrogate)
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInput")
    answer = client.get("/_/crr/failed", params={"marker": "no marker"})
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInput")
    answer = client.get("/_/crr/failed", params={"key": "without-bucket"})
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInput")


def test_a_list_to_retry_may_be_long_but_not_endless(client: httpx.Client) -> None:
    entry = {"Bucket": "nowhere", "Key": "é" * 512, "VersionId": "v" * 32, "StorageClass": "paris"}
    assert client.post("/_/crr/failed", json=[entry] * 1500).raise_for_status().json() == []
    answer = client.post("/_/crr/failed", content=b" " * (9 * 1024 * 1024))
    assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")


def test_all_that_match_are_retried_page_by_page(client: httpx.Client, tables: Tables, bucket: str) -> None:
    for number in range(3):
        failed_at(tables, bucket, str(number), site="oslo" if number else "paris")
    answer = client.post("/api/v1/replication/retry", json={"bucket": bucket, "site": "oslo"}).raise_for_status()
    assert answer.json() == {"retried": 2, "next_marker": ""}
    left = client.get("/_/crr/failed", params={"bucket": bucket}).raise_for_status().json()["Versions"]
    assert [version["Key"] for version in left] == ["0"]
    assert client.post("/api/v1/replication/retry", json={"bukket": bucket}).status_code == 422


def test_a_retry_is_told_to_the_status_processor(api: Api, client: httpx.Client, tables: Tables, bucket: str) -> None:
    failed = failed_at(tables, bucket, "a")
    client.post("/api/v1/replication/retry", json={"bucket": bucket}).raise_for_status()
    with closing(open_topics(api.settings, api.directory.path)) as topics:
        messages = appended_since(topics, STATUS_TOPIC, [0] * 4)
        updates = [StatusUpdate.from_bytes(message.value) for message in messages]
    of_bucket = [update for update in updates if update.bucket == bucket]
    assert [(update.key, update.site, update.status) for update in of_bucket] == [(failed.key, "paris", Status.PENDING)]


def test_sites_are_paused_and_resumed(client: httpx.Client, site: str) -> None:
    def post(path: str, **options: Any) -> None:
        assert client.post(path, **options).raise_for_status().json() == {}

    assert client.get(f"/_/crr/status/{site}").json() == {site: "enabled"}
    post(f"/_/crr/pause/{site}")
    assert client.get("/_/crr/status").json()[site] == "disabled"
    assert client.get(f"/_/crr/resume/{site}").json() == {site: "none"}
    post(f"/_/crr/resume/{site}/schedule", json={"hours": 2})
    in_two_hours = client.get(f"/_/crr/resume/{site}").json()[site]
    post(f"/_/crr/resume/{site}/schedule")
    in_six_hours = client.get("/_/crr/resume/all").json()[site]
    assert in_two_hours[-1] == in_six_hours[-1] == "Z"
    assert in_two_hours < in_six_hours
    assert client.delete(f"/_/crr/resume/{site}/schedule").json() == {}
    assert client.get(f"/_/crr/resume/{site}").json() == {site: "none"}
    assert client.get(f"/_/crr/status/{site}").json() == {site: "disabled"}
    post(f"/_/crr/resume/{site}")
    assert client.get("/_/crr/status").json() == {site: "enabled"}
    post("/_/crr/pause")
    assert client.get("/_/crr/status").json() == {site: "disabled"}
    post("/_/crr/resume")
    assert client.get("/_/crr/status").json() == {site: "enabled"}


@pytest.mark.parametrize(
    "body", [b'{"hours": 0}', b'{"hours": -1}', b'{"hours": "six"}', b"[]", b"six", b'{"hours":1e99}']
)
def test_a_malformed_schedule_is_refused_with_a_reason(client: httpx.Client, site: str, body: bytes) -> None:
    answer = client.post(f"/_/crr/resume/{site}/schedule", content=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInput")
    assert answer.json()["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/_/crr/status/rome"),
        ("POST", "/_/crr/pause/rome"),
        ("POST", "/_/crr/resume/rome"),
        ("GET", "/_/crr/resume/rome"),
        ("DELETE", "/_/crr/resume/rome/schedule"),
        ("GET", "/_/metrics/crr/rome"),
        ("GET", "/_/metrics/crr/rome/backlog"),
        ("GET", "/_/metrics/crr/rome/progress/bucket/key"),
    ],
)
def test_a_site_that_there_is_not_is_not_found(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()["error"]) == (404, "NotFound")


def test_metrics_are_told_by_site_and_together(client: httpx.Client, tables: Tables, bucket: str, site: str) -> None:
    failed_at(tables, bucket, "a", site=site)
    of_site = client.get(f"/_/metrics/crr/{site}").raise_for_status().json()
    assert list(of_site) == ["backlog", "completions", "failures", "throughput", "pending"]
    assert of_site["backlog"]["results"] == {"count": 1, "size": 7}
    assert of_site["pending"]["results"] == {"count": 0, "size": 0}
    assert of_site["throughput"]["results"] == {"count": "0.00", "size": "0.00"}
    for name, shown in of_site.items():
        assert client.get(f"/_/metrics/crr/{site}/{name}").raise_for_status().json() == {name: shown}
    assert client.get(f"/_/metrics/crr/{site}/all").raise_for_status().json() == of_site
    everywhere = client.get("/_/metrics/crr/all").raise_for_status().json()
    assert everywhere.keys() == of_site.keys()
    assert everywhere["backlog"]["results"]["count"] >= 1
    assert client.get(f"/_/metrics/crr/{site}/speed").status_code == 400


@pytest.mark.parametrize("key", ["a", "a/b//c", "/a", "a\nb\n", "a:b é?#%2F", "throughput/x"], ids=ascii)
def test_the_progress_of_an_object_is_told_whatever_its_key_holds(
    client: httpx.Client, tables: Tables, bucket: str, site: str, key: str
) -> None:
    state = SiteState(site, "replicas", Status.COMPLETED, WRITTEN)
    store(tables, record_of(FailedKey(bucket, key, "v1", site), state, uid=f"uid-of-{bucket}", size=900))
    for query in ("", "?versionId=v1"):
        answer = client.get(f"/_/metrics/crr/{site}/progress/{bucket}/{quote(key)}{query}").raise_for_status()
        assert answer.json() == {
            "description": "Number of bytes to be replicated (pending), number of bytes transferred to the destination "
            "(completed), and percentage of the object that has completed replication (progress)",
            "pending": 0,
            "completed": 900,
            "progress": "100%",
        }
    answer = client.get(f"/_/metrics/crr/{site}/throughput/{bucket}/{quote(key)}?versionId=v1").raise_for_status()
    assert answer.json() == {
        "description": "Current throughput for object replication in bytes/sec (throughput)",
        "throughput": "0.00",
    }
    assert client.get(f"/_/metrics/crr/{site}/progress/{bucket}/{quote(key)}?versionId=v2").status_code == 404
    (view,) = client.get("/api/v1/replication/version", params={"bucket": bucket, "key": key}).raise_for_status().json()
    assert (view["site"], view["status"], view["completed_bytes"], view["progress"]) == (site, "COMPLETED", 900, "100%")


def test_every_route_asks_for_the_token(api: Api) -> None:
    paths = [path for path in httpx.get(f"{api.url}/openapi.json").json()["paths"] if path.startswith("/_/")]
    assert len(paths) > 8
    for path in paths:
        assert httpx.request("GET", f"{api.url}{path}").status_code in (401, 405)
    for path in ("/_/crr/failed", "/_/crr/pause", "/_/crr/resume"):
        assert httpx.post(f"{api.url}{path}", json=[]).status_code == 401
        assert httpx.post(f"{api.url}{path}", json=[], headers={"Authorization": "Bearer x"}).status_code == 403


def test_status_history_and_health_are_told(
    api: Api, client: httpx.Client, tables: Tables, bucket: str, site: str
) -> None:
    failed = failed_at(tables, bucket, "a", site=site)
    (status,) = client.get("/api/v1/replication", params={"bucket": bucket}).raise_for_status().json()
    assert (status["site"], status["pending"], status["completed"], status["failed"]) == (site, 0, 0, 1)
    assert client.get("/api/v1/replication", params={"bucket": "nowhere"}).status_code == 404
    with closing(open_topics(api.settings, api.directory.path)) as topics:
        create_replication_topics(topics)
        update = StatusUpdate(bucket=bucket, bucket_uid="u", key="a", version_id="v1", site=site, status=Status.FAILED,
                              at=1.0, reason="no route to host")  # fmt: skip
        send(topics, REPLICATION_AUDIT_TOPIC, [update])
    (record,) = client.get("/api/v1/replication/history", params={"bucket": bucket}).raise_for_status().json()
    assert (record["status"], record["site"], record["reason"]) == ("FAILED", site, "no route to host")
    (health,) = client.get("/api/v1/replication/health", params={"site": site}).raise_for_status().json()
    assert (health["site"], health["ok"]) == (site, False)
    assert health["message"]
    page = httpx.get(f"{api.url}/replication", auth=("admin", api.token)).raise_for_status().text
    for text in (site, failed.bucket, "connection refused", "no route to host", "replicating"):
        assert text in page
    assert httpx.get(f"{api.url}/replication").status_code == 401
    told_metrics = client.get("/metrics").raise_for_status().text
    assert 'tidegate_replication_failed{site="' in told_metrics
    assert "tidegate_replication_oldest_pending_seconds" in told_metrics


def test_a_bucket_at_a_site_is_given_to_a_pool(client: httpx.Client, tables: Tables, site: str) -> None:
    tables.put(Pool.PREFIX + "given", Pool("given", "owner", "group", "/given", "seaweedfs", 1.0).to_json())
    path = f"/api/v1/replication/destinations/{site}/copies"
    assert client.put(path, json={"pool": "nobody"}).status_code == 404
    assert client.put(path, json={}).status_code == 422
    view = client.put(path, json={"pool": "given"}).raise_for_status().json()
    assert (view["bucket"], view["pool"]) == ("copies", "given") and site in view["sites"]
    assert view in client.get("/api/v1/replication/destinations").raise_for_status().json()
