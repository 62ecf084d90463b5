"""`tidegate location` on a data directory without a running service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Run, parsed

from tidegate.assembly import open_tables
from tidegate.settings import load

SECRET = "a-secret-that-nobody-sees"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text(SECRET + "\n")
    return file


def words(secret_file: Path | str, *more: str) -> list[str]:
    given = ["--endpoint", "http://127.0.0.1:1", "--bucket", "archive", "--access-key", "KEY"]
    return ["location", "create", "cold", *given, "--secret-key-file", str(secret_file), *more]


@pytest.fixture
def made(run: Run, secret_file: Path) -> dict[str, Any]:
    created: dict[str, Any] = parsed(run(*words(secret_file), "--json"))
    return created


def test_a_location_is_created_shown_listed_and_removed(run: Run, made: dict[str, Any]) -> None:
    assert (made["name"], made["storage_classes"], made["source"]) == ("cold", ["cold"], "tables")
    assert parsed(run("location", "show", "cold", "--json")) == made
    assert parsed(run("location", "list", "--json")) == [made]
    assert "archive" in run("location", "list").stdout
    assert parsed(run("location", "remove", "cold", "--yes", "--json")) == {"location": "cold", "removed": True}
    assert parsed(run("location", "list", "--json")) == []
    assert "tidegate location create" in run("location", "list").stdout


def test_every_option_counts(run: Run, secret_file: Path) -> None:
    more = ["--region", "eu-1", "--prefix", "pre", "--storage-class", "GLACIER", "--storage-class", "cold"]
    more += ["--concurrency", "3", "--bytes-per-second", "1000000"]
    made = parsed(run(*words(secret_file, *more), "--json"))
    assert (made["region"], made["prefix"], made["storage_classes"]) == ("eu-1", "pre/", ["GLACIER", "cold"])
    assert (made["concurrency"], made["bytes_per_second"]) == (3, 1_000_000)


def test_the_secret_is_never_shown_and_does_not_lie_open_in_the_tables(
    run: Run, made: dict[str, Any], tmp_path: Path
) -> None:
    for command in (("list",), ("show", "cold"), ("check", "cold")):
        for form in ((), ("--json",)):
            shown = run("location", *command, *form)
            assert SECRET not in shown.output
    tables = open_tables(load(tmp_path / "data"), tmp_path / "data")
    assert SECRET not in "".join(value for _, value in tables.scan("lo:"))
    tables.close()


def test_the_secret_may_come_from_standard_input(run: Run) -> None:
    assert parsed(run(*words("-"), "--json", input=f"{SECRET}\n"))["name"] == "cold"


def test_a_secret_file_that_others_can_read_is_refused(run: Run, secret_file: Path) -> None:
    for mode in (0o640, 0o604, 0o666):
        secret_file.chmod(mode)
        refused = run(*words(secret_file))
        assert refused.exit_code == 1 and f"chmod 600 {secret_file}" in refused.stderr
    assert parsed(run("location", "list", "--json")) == []


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_a_secret_file_without_a_secret_is_refused(run: Run, secret_file: Path, content: bytes | None) -> None:
    if content is None:
        secret_file.unlink()
    else:
        secret_file.write_bytes(content)
    refused = run(*words(secret_file), "--json")
    assert refused.exit_code == 1 and json.loads(refused.stderr)["error"] == "InvalidInput"


def test_removing_asks_first_and_no_means_no(run: Run, made: dict[str, Any]) -> None:
    assert run("location", "remove", "cold", input="n\n").exit_code == 130
    assert run("location", "remove", "cold", input="y\n").exit_code == 0


@pytest.mark.parametrize("command", ["show", "check", "remove"])
def test_an_unknown_location_is_an_error(run: Run, command: str) -> None:
    found = run("location", command, "nothing", *(["--yes"] if command == "remove" else []), "--json")
    assert found.exit_code == 1 and json.loads(found.stderr)["error"] == "NotFound"


def test_a_failed_check_says_which_step_and_ends_with_1(run: Run, made: dict[str, Any]) -> None:
    found = run("location", "check", "cold", "--json")
    result = json.loads(found.stdout)
    assert found.exit_code == 1 and not result["ok"]
    assert "127.0.0.1:1" in result["message"]
    for_people = run("location", "check", "cold")
    assert for_people.exit_code == 1 and "FAILED" in for_people.stdout


def test_locations_of_the_settings_are_shown_and_their_secrets_hidden(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tidegate.toml").write_text(
        f'[locations.fixed]\nendpoint = "http://127.0.0.1:1"\nbucket = "fixed"\n'
        f'access_key = "KEY"\nsecret_key = "{SECRET}"\n'
    )
    (view,) = parsed(run("location", "list", "--json"))
    assert (view["name"], view["source"], view["created_at"]) == ("fixed", "settings", None)
    assert run("location", "remove", "fixed", "--yes").exit_code == 1
    shown = run("settings", "show", "--json")
    assert SECRET not in shown.output
    rows = {row["name"]: row for row in parsed(shown)}
    assert rows["locations.fixed.bucket"]["value"] == "fixed"
    assert rows["locations.fixed.bucket"]["source"].endswith("tidegate.toml")
    assert rows["locations.fixed.secret_key"]["value"] == "********"
