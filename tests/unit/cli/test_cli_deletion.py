"""`tidegate deletion` and `tidegate bucket purge` on a data directory without a running service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cli_runs import Run, parsed

from tidegate.assembly import open_topics
from tidegate.core.deletion_records import DeletionOutcome, DeletionRecord
from tidegate.core.pending_deletes import Component, DataType, PendingDelete
from tidegate.movement.deletion_audit import DeletionAudit
from tidegate.movement.pending_deletes import record_of
from tidegate.movement.topics import DELETION_GROUP, create_deletion_topics
from tidegate.ports import Topics
from tidegate.settings import load


def pending(key: str) -> PendingDelete:
    return PendingDelete(
        component=Component.PLACEMENT,
        data_type=DataType.LOCATION,
        pool="pool",
        bucket="photos",
        bucket_uid="uid",
        key=key,
        version_id="null",
        sent_ns=1,
        location="cold",
        data_key=f"pool/uid/{key}",
    )


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    data = tmp_path / "data"
    data.mkdir()
    with closing(open_topics(load(data), data)) as opened:
        create_deletion_topics(opened, load(data).deletion)
        yield opened


def give_up(topics: Topics, *keys: str) -> None:
    topics.append("deletion", [record_of(pending(key)) for key in keys])
    consumer = topics.consumer("deletion", DELETION_GROUP)
    left = len(keys)
    while left:
        for message in consumer.poll(10, 5.0):
            consumer.dead_letter(message, "the location does not answer")
            left -= 1
    consumer.close()


def test_at_first_there_is_nothing(run: Run) -> None:
    status = parsed(run("deletion", "status", "--json"))
    assert status == {"enabled": True, "in_flight": 0, "retrying": 0, "dead": 0}
    assert parsed(run("deletion", "history", "--json")) == []
    assert parsed(run("deletion", "dead", "list", "--json")) == []
    assert "No delete was given up" in run("deletion", "dead", "list").stdout
    assert "Nothing was deleted yet" in run("deletion", "history").stdout


def test_the_status_counts_what_is_pending_and_what_was_given_up(run: Run, topics: Topics) -> None:
    give_up(topics, "one")
    topics.append("deletion", [record_of(pending("two")), record_of(pending("three"))])
    status = parsed(run("deletion", "status", "--json"))
    assert (status["in_flight"], status["retrying"], status["dead"]) == (2, 0, 1)


def test_dead_letters_are_listed_with_the_reason_shown_and_sent_back_once(run: Run, topics: Topics) -> None:
    give_up(topics, "one", "two")
    letters = parsed(run("deletion", "dead", "list", "--json"))
    assert {(letter["key"], letter["reason"]) for letter in letters} == {
        ("one", "the location does not answer"),
        ("two", "the location does not answer"),
    }
    table = run("deletion", "dead", "list").stdout
    assert "photos" in table and "the location does not answer" in table
    first = letters[0]["id"]
    assert parsed(run("deletion", "dead", "show", first, "--json"))["message"]["data_key"].startswith("pool/uid/")
    assert parsed(run("deletion", "dead", "retry", first, "--json")) == {"retried": [first]}
    assert [letter["id"] for letter in parsed(run("deletion", "dead", "list", "--json"))] == [letters[1]["id"]]
    assert parsed(run("deletion", "status", "--json"))["in_flight"] == 1
    again = run("deletion", "dead", "retry", first)
    assert again.exit_code == 1 and "was retried already" in again.stderr


def test_discarding_asks_first(run: Run, topics: Topics) -> None:
    give_up(topics, "one")
    refused = run("deletion", "dead", "discard", "0:0", input="n\n")
    assert refused.exit_code == 130 and "leave the data of photos/one in cold where it is" in refused.stderr
    assert parsed(run("deletion", "status", "--json"))["dead"] == 1
    assert parsed(run("deletion", "dead", "discard", "0:0", "--yes", "--json")) == {"discarded": ["0:0"]}
    status = parsed(run("deletion", "status", "--json"))
    assert (status["dead"], status["in_flight"]) == (0, 0)


def test_a_letter_that_is_not_there_is_told(run: Run) -> None:
    missing = run("deletion", "dead", "show", "0:5")
    assert missing.exit_code == 1 and "there is no dead letter 0:5" in missing.stderr
    wrong = run("deletion", "dead", "show", "five")
    assert wrong.exit_code == 1 and "PARTITION:OFFSET" in wrong.stderr


def test_the_history_shows_the_newest_of_a_bucket(run: Run, topics: Topics) -> None:
    records = [
        DeletionRecord.of(pending(str(number)), DeletionOutcome.DELETED, "", at_ns=number, worker="w", origin="o")
        for number in range(5)
    ]
    DeletionAudit(topics).append(records)
    assert [view["key"] for view in parsed(run("deletion", "history", "--count", "2", "--json"))] == ["3", "4"]
    assert parsed(run("deletion", "history", "--bucket", "other", "--json")) == []
    assert "deleted" in run("deletion", "history", "--bucket", "photos").stdout


def test_a_purge_needs_the_name_of_the_bucket_and_a_service(run: Run) -> None:
    assert run("pool", "create", "physics").exit_code == 0
    assert run("bucket", "create", "results", "--pool", "physics").exit_code == 0
    wrong = run("bucket", "purge", "results", "--confirm", "result")
    assert wrong.exit_code == 1 and "confirm it with its name" in wrong.stderr
    typed = run("bucket", "purge", "results", input="no\n")
    assert typed.exit_code == 1 and "confirm it with its name" in typed.stderr
    silent = run("bucket", "purge", "results", input="")
    assert silent.exit_code == 130
    alone = run("bucket", "purge", "results", "--confirm", "results")
    assert alone.exit_code == 1 and "tidegate up" in alone.stderr
    missing = run("bucket", "purge", "missing", "--dry-run")
    assert missing.exit_code == 1 and "missing" in missing.stderr
