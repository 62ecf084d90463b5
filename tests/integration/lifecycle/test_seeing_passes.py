"""`tidegate pass` and `tidegate demo`: what dry run, simulate and explain say is what then happens.

One service for all, with days of one second, in which no pass begins unless it is asked for.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from lifecycle_world import World
from running_service import RunningService

from tidegate.assembly import open_store, open_tables, open_topics
from tidegate.datadir import DataDirectory
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.queries.inspection import Inspector
from tidegate.lifecycle.queries.simulation import SimulationView
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault

RULES: list[dict[str, Any]] = [
    {"ID": "temporary", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 1}},
    {"ID": "uploads", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
]


@pytest.fixture(scope="module")
def quiet(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {"lifecycle.day_seconds": 1, "lifecycle.cron": "0 0 1 1 *", "topics.lease_seconds": 3}
    service = RunningService(tmp_path_factory.mktemp("quiet") / "data", settings, options=("--demo",))
    try:
        service.start()
        yield World(service, service.create_pool("quiet"))
    finally:
        service.end()


def counts(lines: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    return {(line["rule_id"], line["action"]): line["count"] for line in lines}


def simulated_with_frequent_passes(quiet: World, bucket: str, rules: dict[str, Any]) -> SimulationView:
    """By the cron expression of the service, its passes would be a year apart."""
    directory = DataDirectory(quiet.service.data)
    settings, path = directory.settings(), directory.path
    tables, topics = open_tables(settings, path), open_topics(settings, path)
    stores = Stores(Registry(tables, Vault.open(path), path, settings), partial(open_store, quiet.service.s3_url))
    frequent = settings.lifecycle.model_copy(update={"interval_seconds": 1.0})
    try:
        inspector = Inspector(tables, topics, frequent, lambda: stores)
        return inspector.simulate(bucket, json.dumps(rules).encode(), days=20)
    finally:
        stores.close()
        topics.close()
        tables.close()


def test_all_ways_to_ask_agree_about_many_uploads_and_about_null_markers(quiet: World) -> None:
    """The store cannot remove delete markers of the null version, and lists a thousand uploads in one page."""
    rules = [
        {"ID": "uploads", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
        {"ID": "markers", "Filter": {}, "Expiration": {"ExpiredObjectDeleteMarker": True}},
    ]
    bucket = quiet.bucket("crowd", *rules, versioning="Suspended")
    quiet.put(bucket, "marked")
    quiet.s3.delete_object(Bucket=bucket, Key="marked")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: quiet.s3.create_multipart_upload(Bucket=bucket, Key="many"), range(1010)))
    time.sleep(3)
    expected = {("uploads", "abortUpload"): 1010}
    explained = quiet.service.cli("lifecycle", "explain", f"s3://{bucket}/many")
    assert len({item["upload_id"] for item in explained["items"]}) == 1010
    assert all(item["verdicts"][0]["is_next"] for item in explained["items"])
    (marker,) = quiet.service.cli("lifecycle", "explain", f"s3://{bucket}/marked")["items"]
    assert (marker["place"], [verdict["is_next"] for verdict in marker["verdicts"]]) == ("sole-marker", [False, False])
    assert "cannot remove" in " ".join(marker["verdicts"][1]["obstacles"])
    with quiet.service.api() as api:
        asked = {"bucket": bucket, "rules": {"Rules": [{"Status": "Enabled"} | rule for rule in rules]}}
        simulated = api.post("/api/v1/lifecycle/simulate", json=asked).raise_for_status().json()
    assert counts(simulated["at_once"]) == expected and simulated["never"]["versions"] == 1
    dry = quiet.service.cli("pass", "run", "--dry-run", "--bucket", bucket)
    assert counts(dry["plan"]) == expected


def test_dry_run_simulation_and_explanation_agree_with_what_then_happens(quiet: World) -> None:
    bucket = quiet.bucket("agreement", *RULES)
    quiet.put(bucket, "tmp/a", "tmp/b:\n\N{GRINNING FACE}", "keep", body=b"123")
    quiet.s3.create_multipart_upload(Bucket=bucket, Key="tmp/u")
    time.sleep(3)
    expected = {("temporary", "deleteObject"): 2, ("uploads", "abortUpload"): 1}
    dry = quiet.service.cli("pass", "run", "--dry-run", "--bucket", bucket, "--list", "2")
    assert (dry["status"], dry["dry_run"], dry["planned"], dry["outcomes"]) == ("ok", True, 3, {})
    assert counts(dry["plan"]) == expected
    assert len(dry["entries"]) == 2 and {entry["bucket"] for entry in dry["entries"]} == {bucket}
    with quiet.service.api() as api:
        asked = {"bucket": bucket, "rules": {"Rules": [{"Status": "Enabled"} | rule for rule in RULES]}}
        simulated = api.post("/api/v1/lifecycle/simulate", json=asked).raise_for_status().json()
    assert counts(simulated["at_once"]) == expected and simulated["days"] == []
    explained = quiet.service.cli("lifecycle", "explain", f"s3://{bucket}/tmp/a")
    assert [verdict["is_next"] for verdict in explained["items"][0]["verdicts"]] == [True, False]
    assert len(quiet.keys(bucket)) == 3  # nothing has happened yet
    done = quiet.service.run_cli("pass", "run", "--bucket", bucket)
    assert done.returncode == 0, done.stderr
    assert "3 actions planned; 1 buckets looked at; 3 DONE" in done.stdout
    assert quiet.keys(bucket) == {"keep"} and quiet.uploads(bucket) == set()
    assert {(record["rule_id"], record["action"]) for record in quiet.audits(bucket)} == set(expected)
    (last,) = quiet.service.cli("pass", "history", "-n", "1")
    assert (last["only_bucket"], last["outcomes"], last["trigger"]) == (bucket, {"DONE": 3}, "request")
    assert counts(quiet.service.cli("pass", "history", last["id"])["plan"]) == expected


def test_a_simulation_foresees_what_follows_from_its_actions(quiet: World) -> None:
    bucket = quiet.bucket("foreseen", versioning="Enabled")
    quiet.put(bucket, "tmp/a", "tmp/b", "tmp/b", body=b"12345")
    quiet.put(bucket, "keep", body=b"1234567")
    rules: list[dict[str, Any]] = [
        {"ID": "hide", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 1}},
        {"ID": "remove", "Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}},
        {"ID": "clean", "Filter": {}, "Expiration": {"ExpiredObjectDeleteMarker": True}},
    ]
    view = simulated_with_frequent_passes(quiet, bucket, {"Rules": [{"Status": "Enabled"} | rule for rule in rules]})
    foreseen: Counter[tuple[str, str]] = Counter()
    for actions in [view.at_once, *(day.actions for day in view.days)]:
        foreseen.update({(line.rule_id, line.action): line.count for line in actions})
    assert foreseen == {("hide", "expireObject"): 2, ("remove", "deleteObject"): 3, ("clean", "removeDeleteMarker"): 2}
    assert (view.never.versions, view.never.bytes, view.later.versions) == (1, 7, 0)
    quiet.rules(bucket, *rules)
    for _ in range(6):
        time.sleep(2)
        quiet.service.cli("pass", "run", "--engine", "listing", "--bucket", bucket)
        if not quiet.markers(bucket) and len(quiet.versions(bucket)) == 1:
            break
    assert Counter((record["rule_id"], record["action"]) for record in quiet.audits(bucket)) == foreseen


def test_a_pass_that_cannot_be_ends_with_a_reason_and_code_1(quiet: World) -> None:
    bucket = quiet.bucket("no-rules")
    done = quiet.service.run_cli("pass", "run", "--bucket", bucket)
    assert done.returncode == 1 and "has no lifecycle rules that are enabled" in done.stdout


def test_the_demo_lets_objects_expire_before_ones_eyes(quiet: World) -> None:
    done = quiet.service.run_cli("demo", "--watch", "--day-seconds", "2", "--json")
    assert done.returncode == 0, done.stderr
    shown, _, records = done.stdout.partition("\n}\n")
    demo = json.loads(shown + "}")
    gone = {json.loads(line)["key"] for line in records.splitlines()}
    assert gone == set(demo["expiring"])
    assert quiet.service.cli("status")["demo_day_seconds"] == 2
    assert [view["bucket"] for view in quiet.service.cli("lifecycle", "buckets") if view["pool"] == "demo"] == [
        demo["bucket"]
    ]
    assert quiet.service.cli("demo", "--off") == {"demo": "off"}
    assert "demo_day_seconds" not in quiet.service.cli("status")
    assert "THE DEMO IS ON" in quiet.service.log()


def test_where_no_service_runs_a_pass_starts_one_for_itself(quiet: World) -> None:
    """The last test here: it stops the service."""
    quiet.bucket("alone", {"Expiration": {"Days": 1}})
    quiet.put("alone", "tmp/late")
    time.sleep(3)
    quiet.service.stop()
    settings = ["gateway.port=0", "api.port=0", "lifecycle.day_seconds=1", "lifecycle.engine=listing"]
    options = [word for text in settings for word in ("--set", text)]
    done = quiet.service.run_cli("pass", "run", "--bucket", "alone", "--json", *options)
    assert done.returncode == 0, done.stderr
    assert "one is started for this command" in done.stderr
    assert json.loads(done.stdout)["outcomes"] == {"DONE": 1}
    assert quiet.service.processes() == []
