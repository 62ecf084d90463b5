"""`tidegate replication` on a data directory without a running service: the tests write what the tables hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cli_runs import Run, parsed
from failed_versions import WRITTEN, fail, make_bucket, record_of, store

from tidegate.assembly import open_tables, open_topics
from tidegate.core.records import Pool
from tidegate.core.replication.failed_keys import FailedKey
from tidegate.core.replication.messages import REPLICATION_AUDIT_TOPIC, StatusUpdate
from tidegate.core.replication.records import SiteState, Status
from tidegate.ports import Tables
from tidegate.replication.topics import create_replication_topics, send
from tidegate.settings import load


@pytest.fixture(autouse=True)
def _two_sites(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("secret")
    for name in ("oslo", "paris"):
        given = ["--endpoint", "http://127.0.0.1:1", "--bucket", "replicas", "--prefix", name, "--access-key", "KEY"]
        parsed(run("location", "create", name, *given, "--secret-key-file", str(secret), "--json"))


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    data = tmp_path / "data"
    with closing(open_tables(load(data), data)) as opened:
        make_bucket(opened, "photos", "uid")
        yield opened


def test_the_status_is_told_by_site(run: Run, tables: Tables) -> None:
    assert parsed(run("replication", "status", "--json")) == []
    assert "No bucket has replication rules" in run("replication", "status").stdout
    states = [
        SiteState("oslo", "replicas", Status.PENDING, WRITTEN),
        SiteState("paris", "replicas", Status.FAILED, 1.0),
    ]
    store(tables, record_of(FailedKey("photos", "a", "v1", "-"), *states))
    for words in ([], ["photos"]):
        told = parsed(run("replication", "status", *words, "--json"))
        assert [(view["site"], view["pending"], view["completed"], view["failed"]) for view in told] == [
            ("oslo", 1, 0, 0),
            ("paris", 0, 0, 1),
        ]
    shown = run("replication", "status").stdout
    assert "OLDEST PENDING AT" in shown
    assert "2023-11-14" in shown
    told = parsed(run("replication", "progress", "photos", "a", "--json"))
    assert [(view["site"], view["status"], view["progress"]) for view in told] == [
        ("oslo", "PENDING", "0%"),
        ("paris", "FAILED", "0%"),
    ]


def test_sites_are_paused_and_resumed_now_or_later(run: Run, tables: Tables) -> None:
    assert parsed(run("replication", "pause", "oslo", "--json")) == {"paused": ["oslo"]}
    (view,) = parsed(run("replication", "status", "--json"))
    assert (view["site"], view["paused"], view["resume_at"]) == ("oslo", True, None)
    assert parsed(run("replication", "resume", "oslo", "--in", "1h", "--json")) == {"resumed": ["oslo"], "in": 3600}
    (view,) = parsed(run("replication", "status", "--json"))
    assert view["paused"]
    assert view["resume_at"]
    assert parsed(run("replication", "resume", "oslo", "--json")) == {"resumed": ["oslo"], "in": 0}
    assert parsed(run("replication", "status", "--json")) == []
    assert parsed(run("replication", "pause", "all", "--json")) == {"paused": ["oslo", "paris"]}
    assert run("replication", "resume", "all").stdout == "To resume now: oslo, paris.\n"


def test_failures_are_listed_by_what_is_asked_for(run: Run, tables: Tables) -> None:
    assert run("replication", "failed", "list").stdout == "Nothing has failed.\n"
    for number in range(3):
        fail(tables, FailedKey("photos", f"{number}\n", "v1", "oslo" if number else "paris"))
    told = parsed(run("replication", "failed", "list", "--json"))
    assert [(view["key"], view["site"], view["version_id"], view["size"], view["reason"]) for view in told] == [
        (f"{number}\n", "oslo" if number else "paris", "v1", 7, "connection refused") for number in range(3)
    ]
    assert [view["key"] for view in parsed(run("replication", "failed", "list", "--site", "paris", "--json"))] == [
        "0\n"
    ]
    some = run("replication", "failed", "list", "-n", "2")
    assert "there are more" in some.stderr
    assert "1\\n" in some.stdout
    assert len(parsed(run("replication", "failed", "list", "-n", "1", "--all", "--json"))) == 3


def test_failures_are_retried_by_filter_or_all_of_them(run: Run, tables: Tables) -> None:
    for number in range(3):
        fail(tables, FailedKey("photos", str(number), "v1", "oslo" if number else "paris"))
    assert parsed(run("replication", "failed", "retry", "--site", "paris", "--json")) == {"retried": 1}
    assert parsed(run("replication", "failed", "retry", "--bucket", "photos", "--key", "1", "--json")) == {"retried": 1}
    assert run("replication", "failed", "retry", "--all").stdout == "Versions sent once more: 1.\n"
    assert parsed(run("replication", "failed", "list", "--json")) == []


def test_the_history_tells_what_has_expired_from_the_list(run: Run, tables: Tables, tmp_path: Path) -> None:
    assert run("replication", "history").stdout == "Nothing has failed yet.\n"
    data = tmp_path / "data"
    with closing(open_topics(load(data), data)) as topics:
        create_replication_topics(topics)
        update = StatusUpdate(bucket="photos", bucket_uid="uid", key="a", version_id="v1", site="oslo",
                              status=Status.FAILED, at=1.0, reason="no space")  # fmt: skip
        send(topics, REPLICATION_AUDIT_TOPIC, [update])
    (view,) = parsed(run("replication", "history", "--bucket", "photos", "--json"))
    assert (view["status"], view["site"], view["key"], view["reason"]) == ("FAILED", "oslo", "a", "no space")


def test_a_site_that_cannot_be_reached_is_told(run: Run, tables: Tables) -> None:
    result = run("replication", "health", "paris")
    assert result.exit_code == 1
    assert "paris  no" in result.stdout


def test_buckets_at_sites_are_given_to_pools(run: Run, tables: Tables) -> None:
    assert "No bucket at a site belongs to a pool" in run("replication", "destination", "list").stdout
    tables.put(Pool.PREFIX + "p", Pool("p", "owner", "group", "/p", "seaweedfs", 1.0).to_json())
    given = parsed(run("replication", "destination", "assign", "oslo", "copies", "p", "--json"))
    assert given == {"bucket": "copies", "host": "127.0.0.1:1", "sites": ["oslo", "paris"], "pool": "p"}
    assert parsed(run("replication", "destination", "list", "--json")) == [given]
    assert "oslo, paris" in run("replication", "destination", "list").stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["status", "nowhere"], 1, "there is no bucket nowhere"),
        (["progress", "photos", "a"], 1, "photos/a is not replicated"),
        (["pause", "rome"], 1, "there is no site 'rome'"),
        (["resume", "rome"], 1, "there is no site 'rome'"),
        (["resume", "oslo", "--in", "1h"], 1, "site oslo is not paused"),
        (["resume", "oslo", "--in", "soon"], 2, "no time such as 30s"),
        (["resume", "oslo", "--in", "0s"], 1, "more than 0"),
        (["destination", "assign", "rome", "copies", "p"], 1, "there is no site 'rome'"),
        (["destination", "assign", "oslo", "copies", "nobody"], 1, "there is no pool nobody"),
        (["failed", "retry"], 2, "or --all"),
        (["failed", "retry", "--all", "--site", "oslo"], 2, "or --all"),
        (["failed", "retry", "--key", "a"], 1, "name the bucket"),
        (["failed", "list", "--bucket", "photos", "--version", "v1"], 1, "bucket and key"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_to_do(
    run: Run, tables: Tables, words: list[str], code: int, message: str
) -> None:
    refused = run("replication", *words)
    assert refused.exit_code == code
    assert message in refused.stderr
