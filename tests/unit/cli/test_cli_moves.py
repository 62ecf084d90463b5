"""`tidegate move` on a data directory without a running service: what is asked for, refused and shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import Run, parsed

from tidegate.assembly import open_tables
from tidegate.core.records import Bucket, BucketPolicy
from tidegate.movement.move_records import FAILED, MOVED, MoveRecords
from tidegate.settings import load


@pytest.fixture(autouse=True)
def _a_bucket_and_a_location(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("secret")
    given = ["--endpoint", "http://127.0.0.1:1", "--bucket", "archive", "--access-key", "KEY"]
    parsed(run("location", "create", "cold", *given, "--secret-key-file", str(secret), "--json"))
    data = tmp_path / "data"
    tables = open_tables(load(data), data)
    bucket = Bucket(name="photos", pool="pool", uid="uid", policy=BucketPolicy.NONE, created_at=1.0)
    tables.put(Bucket.PREFIX + "photos", bucket.to_json())
    tables.close()


def test_a_move_is_asked_for_and_shown_with_or_without_the_word_run(run: Run) -> None:
    asked = parsed(run("move", "s3://photos/2020/", "--to", "cold", "--no-wait", "--json"))
    assert (asked["bucket"], asked["prefix"], asked["location"], asked["status"]) == (
        "photos", "2020/", "cold", "listing",
    )  # fmt: skip
    assert parsed(run("move", "status", asked["id"], "--json")) == asked
    back = parsed(run("move", "run", "--back", "--versions", "--no-wait", "s3://photos", "--json"))
    assert (back["back"], back["versions"], back["prefix"], back["location"]) == (True, True, "", "")
    assert [view["id"] for view in parsed(run("move", "list", "--json"))] == [asked["id"], back["id"]]
    assert asked["id"] in run("move", "list").stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["s3://photos/"], 2, "--to LOCATION, or --back"),
        (["s3://photos/", "--to", "cold", "--back"], 2, "--to LOCATION, or --back"),
        (["s3://photos/", "--to", "warm", "--no-wait"], 1, "there is no location warm"),
        (["s3://nowhere/", "--to", "cold", "--no-wait"], 1, "there is no bucket nowhere"),
        (["run", "photos/", "--to", "cold"], 1, "use s3://BUCKET/PREFIX"),
        (["status", "nothing"], 1, "there is no move nothing"),
    ],
)
def test_what_cannot_be_moved_is_refused_with_what_to_do(run: Run, words: list[str], code: int, message: str) -> None:
    refused = run("move", *words)
    assert refused.exit_code == code
    assert message in refused.stderr


def test_the_outcomes_of_versions_are_counted_once(run: Run, tmp_path: Path) -> None:
    asked = parsed(run("move", "s3://photos/", "--to", "cold", "--no-wait", "--json"))
    data = tmp_path / "data"
    tables = open_tables(load(data), data)
    records = MoveRecords(tables)
    records.begin_page(asked["id"], 0, 3)
    for _ in range(2):
        records.note(asked["id"], 0, {0: (MOVED, ""), 2: (FAILED, "k: why")})
    records.note(asked["id"], 0, {0: (FAILED, "later")})
    tables.close()
    shown = parsed(run("move", "status", asked["id"], "--json"))
    assert (shown["moved"], shown["failed"], shown["unchanged"], shown["reasons"]) == (1, 1, 0, ["k: why"])
