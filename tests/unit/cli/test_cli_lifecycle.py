"""`tidegate pass`, `lifecycle`, `demo` and `metalog statistics` on a data directory without a running service."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runs import Run, parsed, put

from tidegate.assembly import open_tables
from tidegate.cli.printing import show, show_bytes
from tidegate.cli.ticker import Ticker
from tidegate.lifecycle.buckets.time_scale import DEMO_DAY
from tidegate.lifecycle.passes.clock_guard import SEEN
from tidegate.lifecycle.passes.pass_records import BucketReport, PassReport, PassReports, PassRequests, PassStatus
from tidegate.settings import load

RULES = (
    "<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
    "</LifecycleConfiguration>"
)


def put_report(data: Path, report: PassReport) -> None:
    tables = open_tables(load(data), data)
    PassReports(tables).put(report)
    tables.close()


def test_without_any_pass_there_is_nothing_to_show(run: Run) -> None:
    assert parsed(run("pass", "history", "--json")) == []
    assert "No pass has run yet" in run("pass", "history").stdout
    assert parsed(run("pass", "status", "--json")) == {"running": None, "refused": "", "waiting": [], "last": None}
    assert "No pass runs" in run("pass", "status").stdout


def test_a_pass_can_be_asked_for_ahead_of_the_next_start(run: Run, tmp_path: Path) -> None:
    request = parsed(run("pass", "run", "--no-wait", "--dry-run", "--engine", "spark", "--json"))
    tables = open_tables(load(tmp_path / "data"), tmp_path / "data")
    stored = PassRequests(tables).oldest()
    tables.close()
    assert stored is not None and (stored.id, stored.dry_run, stored.engine) == (request["id"], True, "spark")
    assert f"waiting: {request['id']} (dry run over all)" in run("pass", "status").stdout


def test_lifecycle_is_stopped_and_resumed_also_while_no_service_runs(run: Run) -> None:
    state = parsed(run("lifecycle", "status", "--json"))
    assert (state["enabled"], state["stopped"], state["stopped_buckets"], state["queued_actions"]) == (
        True,
        False,
        [],
        0,
    )
    assert "is not stopped" in run("lifecycle", "status").stdout
    assert parsed(run("lifecycle", "stop", "--json"))["stopped"] is True
    assert "Lifecycle is stopped since 20" in run("lifecycle", "status").stdout
    assert "No pass begins: lifecycle is stopped" in run("pass", "status").stdout
    refused = run("pass", "run", "--no-wait")
    assert refused.exit_code == 1 and "tidegate lifecycle resume" in refused.stderr
    assert "is not stopped" in run("lifecycle", "resume").stdout
    assert run("pass", "run", "--no-wait").exit_code == 0


def test_one_bucket_is_stopped_and_resumed(run: Run) -> None:
    assert run("pool", "create", "physics").exit_code == 0
    assert run("bucket", "create", "results", "--pool", "physics").exit_code == 0
    assert "stopped: bucket results since" in run("lifecycle", "stop", "--bucket", "results").stdout
    missing = run("lifecycle", "stop", "--bucket", "missing")
    assert missing.exit_code == 1 and "there is no bucket missing" in missing.stderr
    assert parsed(run("lifecycle", "resume", "--bucket", "results", "--json"))["stopped_buckets"] == []


def test_a_clock_that_is_not_believed_is_confirmed(run: Run, tmp_path: Path) -> None:
    assert parsed(run("lifecycle", "status", "--json"))["clock_seen"] is None
    tables = open_tables(load(tmp_path / "data"), tmp_path / "data")
    tables.put(SEEN, str(10**18))
    tables.close()
    assert "No pass begins: the clock shows" in run("pass", "status").stdout
    refused = run("pass", "run", "--no-wait")
    assert refused.exit_code == 1 and "tidegate lifecycle confirm-clock" in refused.stderr
    assert parsed(run("lifecycle", "confirm-clock", "--json"))["clock_seen"] > "2026"
    assert run("pass", "run", "--no-wait").exit_code == 0


def test_passes_are_listed_and_shown_in_detail(run: Run, tmp_path: Path) -> None:
    assert run("pool", "list").exit_code == 0  # makes the data directory
    detail = BucketReport(
        "b\x1b", "u", recoveries={"rule-edit": 16}, outcomes={"DONE": 2, "BLOCKED": 1}, problem="no\nway"
    )
    report = PassReport("p1", "spark", "schedule", 10**18, 3)
    put_report(tmp_path / "data", report.ended(10**18, PassStatus.BLOCKED, [detail], "it is stuck"))
    listed = run("pass", "history").stdout
    assert "blocked" in listed and "1 BLOCKED, 2 DONE" in listed
    shown = run("pass", "history", "p1").stdout
    assert "p1 (spark) blocked: 0 actions planned; 3 buckets looked at; 1 BLOCKED; 2 DONE; it is stuck" in shown
    assert "b\\x1b: 1 BLOCKED; 2 DONE; 16 shards looked at anew: rule-edit; no\\nway" in shown
    assert parsed(run("pass", "history", "p1", "--json"))["details"][0]["recoveries"] == {"rule-edit": 16}
    assert "last:    p1 (spark) blocked" in run("pass", "status").stdout
    missing = run("pass", "history", "p2")
    assert missing.exit_code == 1 and "there is no pass p2" in missing.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("demo",), "start one with: tidegate up --demo"),
        (("pass", "run", "--no-wait", "--bucket", "missing"), "there is no bucket missing"),
        (("pass", "run", "--no-wait", "--set", "lifecycle.enabled=false"), "lifecycle is switched off"),
        (("lifecycle", "simulate", "-", "--bucket", "missing"), "there is no bucket missing"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(run: Run, words: tuple[str, ...], message: str) -> None:
    result = run(*words, input=RULES)
    assert result.exit_code == 1 and message in result.stderr
    assert result.stderr.count("\n") == 1 and result.stdout == ""


def test_rules_are_checked_before_a_service_is_asked_for(run: Run, tmp_path: Path) -> None:
    assert run("pool", "create", "physics").exit_code == 0
    assert run("bucket", "create", "results", "--pool", "physics").exit_code == 0
    wrong = run("lifecycle", "simulate", "-", "--bucket", "results", input="<x/>")
    assert wrong.exit_code == 1 and wrong.stderr.startswith("tidegate: MalformedXML: ")
    asked_for_json = run("lifecycle", "simulate", "-", "--bucket", "results", "--json", input="<x/>")
    assert '"error": "MalformedXML"' in asked_for_json.stderr
    file = tmp_path / "rules.xml"
    file.write_text(RULES)
    right = run("lifecycle", "simulate", str(file), "--bucket", "results")
    assert right.exit_code == 1 and "start it with: tidegate up" in right.stderr
    assert run("lifecycle", "simulate", str(tmp_path / "none"), "--bucket", "results").exit_code == 2


def test_the_demo_can_be_switched_off_at_any_time(run: Run, tmp_path: Path) -> None:
    assert parsed(run("demo", "--off", "--json")) == {"demo": "was not on"}
    tables = open_tables(load(tmp_path / "data"), tmp_path / "data")
    tables.put(DEMO_DAY, "10.0")
    assert "demo_day_seconds" not in parsed(run("status", "--json"))  # nobody was started for it
    assert parsed(run("status", "--json", "--set", "lifecycle.demo_day=true"))["demo_day_seconds"] == 10
    assert parsed(run("demo", "--off", "--json")) == {"demo": "off"}
    assert tables.get(DEMO_DAY) is None
    tables.close()


def test_the_log_is_told_in_numbers(run: Run, journal: Callable[..., None]) -> None:
    journal(put(1, "a"), put(2, "b"), put(3, "c\n"))
    view = parsed(run("metalog", "statistics", "--json"))
    assert (view["events"], view["topic"]["not_landed"], view["table"]["events"]) == (3, 3, 0)
    shown = run("metalog", "statistics").stdout
    assert re.search(r"^put +3 ", shown, re.MULTILINE) and "3 not landed yet" in shown


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 70, "1024.0 EiB")],
)
def test_bytes_are_shown_with_a_unit(count: int, text: str) -> None:
    assert show_bytes(count) == text


def test_counts_are_shown_by_name() -> None:
    assert (show({"DONE": 2, "BLOCKED": 1}), show({})) == ("1 BLOCKED, 2 DONE", "-")


def test_what_ends_at_once_is_not_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    with Ticker() as ticker:
        ticker.tell("one")
    assert capsys.readouterr().err == ""


def test_progress_comes_line_by_line_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("tidegate.cli.ticker.time.monotonic", lambda: now)
    with Ticker() as ticker, Ticker(silent=True) as silent:
        for now in (100.5, 101.5, 102.0, 107.0):
            ticker.tell(f"at {now}")
            silent.tell("never")
    assert capsys.readouterr().err == "at 101.5\nat 107.0\n"
