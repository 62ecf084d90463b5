"""The commands on a data directory without a running service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from cli_runs import Run, parsed, put
from click.testing import CliRunner

from tidegate.assembly import open_tables
from tidegate.cli.main import main
from tidegate.core.records import PoolState
from tidegate.settings import load


@pytest.fixture
def made(run: Run) -> dict[str, Any]:
    return parsed(run("pool", "create", "physics", "--json"))


def every_command(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from every_command(below, (*path, name))


@pytest.mark.parametrize("path", list(every_command()), ids=" ".join)
def test_every_command_explains_itself_and_takes_the_common_options(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    for option in ("--data", "--config", "--set", "--json"):
        assert option in result.stdout
    assert result.stdout.split("\n\n")[1].strip()


def test_creating_a_pool_prints_pool_key_and_secret(made: dict[str, Any]) -> None:
    assert made["pool"] == "physics"
    assert len(made["access_key"]) == 20
    assert len(made["secret_key"]) == 40


def test_the_data_directory_may_stand_before_the_command(tmp_path: Path) -> None:
    words = ["--data", str(tmp_path / "data"), "pool", "--json", "create", "physics"]
    assert parsed(CliRunner().invoke(main, words))["pool"] == "physics"
    assert (tmp_path / "data" / "tables.db").exists()


def test_the_data_directory_is_taken_from_the_environment(tmp_path: Path) -> None:
    environment = {"TIDEGATE_DATA": str(tmp_path / "elsewhere")}
    parsed(CliRunner().invoke(main, ["pool", "list", "--json"], env=environment))
    assert (tmp_path / "elsewhere" / "tables.db").exists()


def test_settings_given_to_a_command_count(run: Run) -> None:
    result = run("pool", "create", "physics", "--set", "pools.backend=unheard-of")
    assert result.exit_code == 1
    assert "unheard-of" in result.stderr


def test_a_pool_is_shown_and_listed(run: Run, made: dict[str, Any]) -> None:
    shown = parsed(run("pool", "show", "physics", "--json"))
    assert (shown["name"], shown["online"], shown["endpoint"]) == ("physics", True, "")
    assert parsed(run("pool", "list", "--json")) == [shown]
    assert "physics" in run("pool", "list").stdout


def test_secrets_are_shown_at_creation_only(run: Run, made: dict[str, Any]) -> None:
    for words in (("pool", "show", "physics"), ("pool", "list"), ("key", "list", "physics")):
        assert made["secret_key"] not in run(*words, "--json").stdout


def test_a_name_that_is_taken_is_an_error_in_one_line(run: Run, made: dict[str, Any]) -> None:
    result = run("pool", "create", "physics")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("tidegate: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("pool", "show", "nothing"), "NotFound"),
        (("pool", "create", "Not A Name"), "InvalidInput"),
        (("pool", "delete", "nothing", "--yes"), "NotFound"),
        (("key", "list", "nothing"), "NotFound"),
        (("key", "delete", "NOTHING", "--yes"), "NotFound"),
        (("bucket", "show", "nothing"), "NotFound"),
        (("bucket", "list", "--pool", "nothing"), "NotFound"),
        (("settings", "show", "--set", "gateway.port=x"), "InvalidInput"),
        (("settings", "show", "--config", "/nowhere.toml"), "InvalidInput"),
    ],
)
def test_errors_are_json_on_stderr_when_json_is_asked_for(run: Run, words: tuple[str, ...], error: str) -> None:
    result = run(*words, "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert json.loads(result.stderr)["error"] == error


@pytest.mark.parametrize(
    "words",
    [
        ("pool", "create"),
        ("pool", "nothing"),
        ("key", "create", "physics", "--policy", "all"),
        ("bucket", "create", "b-1"),
        ("pool", "create", "physics", "--expires", "tomorrow"),
        ("metalog", "tail", "-n", "-1"),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words).exit_code == 2
    as_json = run(*words, "--json")
    assert as_json.exit_code == 2
    assert json.loads(as_json.stderr)["error"] == "Usage"


def test_deleting_asks_first_and_no_means_no(run: Run, made: dict[str, Any]) -> None:
    assert run("pool", "delete", "physics", input="n\n").exit_code == 130
    assert len(parsed(run("pool", "list", "--json"))) == 1
    assert run("pool", "delete", "physics", input="y\n").exit_code == 0
    assert parsed(run("pool", "list", "--json")) == []


def test_deleting_a_pool_keeps_its_directory(run: Run, made: dict[str, Any]) -> None:
    kept = Path(made["directory"]) / "kept"
    kept.write_text("contents")
    deleted = parsed(run("pool", "delete", "physics", "--yes", "--json"))
    assert deleted["directory"] == made["directory"]
    assert kept.read_text() == "contents"


def test_keys_are_created_listed_and_deleted(run: Run, made: dict[str, Any]) -> None:
    new = parsed(run("key", "create", "physics", "--policy", "readonly", "--expires", "30d", "--json"))
    assert (new["policy"], new["pool"]) == ("readonly", "physics")
    assert new["expires_at"] > new["created_at"]
    listed = {key["access_key"] for key in parsed(run("key", "list", "physics", "--json"))}
    assert listed == {made["access_key"], new["access_key"]}
    assert parsed(run("key", "delete", new["access_key"], "--yes", "--json"))["deleted"] is True
    assert len(parsed(run("key", "list", "physics", "--json"))) == 1


def test_buckets_are_created_shown_opened_and_deleted(run: Run, made: dict[str, Any]) -> None:
    created = parsed(run("bucket", "create", "results", "--pool", "physics", "--json"))
    assert created["policy"] == "none"
    opened = parsed(run("bucket", "policy", "results", "download", "--json"))
    assert opened["policy"] == "download"
    assert parsed(run("bucket", "show", "results", "--json")) == opened
    assert parsed(run("bucket", "list", "--json")) == [opened]
    assert parsed(run("bucket", "list", "--pool", "physics", "--json")) == [opened]
    run("bucket", "delete", "results", "--yes")
    assert parsed(run("bucket", "list", "--json")) == []


def test_a_pool_goes_offline_and_online_again(run: Run, made: dict[str, Any]) -> None:
    offline = parsed(run("pool", "offline", "physics", "--json"))
    assert (offline["online"], offline["state"]) == (False, PoolState.DISABLED)
    online = parsed(run("pool", "online", "physics", "--json"))
    assert online["online"] is True
    assert online["state"] != PoolState.DISABLED


def test_an_expiry_is_set_and_taken_away(run: Run, made: dict[str, Any]) -> None:
    assert parsed(run("pool", "expire", "physics", "2099-01-31", "--json"))["expires_at"] == "2099-01-31T00:00:00Z"
    assert parsed(run("pool", "expire", "physics", "never", "--json"))["expires_at"] is None


def test_a_denied_users_pools_are_disabled(run: Run, made: dict[str, Any]) -> None:
    assert parsed(run("user", "deny", made["owner"], "--json"))["permitted"] is False
    assert parsed(run("pool", "show", "physics", "--json"))["state"] == PoolState.DISABLED
    assert parsed(run("user", "allow", made["owner"], "--json"))["permitted"] is True
    assert [user["name"] for user in parsed(run("user", "list", "--json"))] == [made["owner"]]


def test_stopping_and_resetting_a_sleeping_pool_is_harmless(run: Run, made: dict[str, Any]) -> None:
    assert parsed(run("pool", "stop", "physics", "--json"))["stopped"] is True
    assert parsed(run("pool", "reset", "physics", "--json"))["name"] == "physics"


def test_status_says_that_the_service_is_stopped(run: Run, made: dict[str, Any]) -> None:
    status = parsed(run("status", "--json"))
    assert (status["service"], status["gateways"]) == ("stopped", 0)
    assert sum(status["pools"].values()) == 1
    assert "stopped" in run("status").stdout


def test_no_gateways_are_listed_without_a_service(run: Run) -> None:
    assert parsed(run("gateway", "list", "--json")) == []


def test_settings_show_values_with_sources_and_hide_secrets(run: Run) -> None:
    rows = parsed(run("settings", "show", "--set", "api.admin_token=abracadabra", "--json"))
    found = {row["name"]: row for row in rows}
    assert found["api.admin_token"] == {
        "name": "api.admin_token",
        "value": "********",
        "default": "",
        "source": "--set",
    }
    assert found["gateway.port"]["source"] == "default"
    assert "abracadabra" not in run("settings", "show", "--set", "api.admin_token=abracadabra").stdout


def test_the_tail_of_the_log_is_printed_one_json_object_per_line(run: Run, journal: Callable[..., None]) -> None:
    journal(*(put(number, f"key-{number}") for number in range(1, 21)))
    lines = [json.loads(line) for line in run("metalog", "tail", "-n", "3", "--json").stdout.splitlines()]
    assert [line["key"] for line in lines] == ["key-18", "key-19", "key-20"]
    assert lines[0]["operation"] == "put"


def test_the_tail_can_be_limited_to_a_bucket(run: Run, journal: Callable[..., None]) -> None:
    journal(put(1, "a", "first"), put(2, "b", "second"))
    lines = run("metalog", "tail", "--bucket", "first", "--json").stdout.splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["a"]


def test_hostile_keys_cannot_disturb_the_terminal(run: Run, journal: Callable[..., None]) -> None:
    journal(put(1, "a\n\x1b[31m:/😀"))
    printed = run("metalog", "tail").stdout
    assert len(printed.splitlines()) == 1
    assert "\x1b" not in printed
    assert "😀" in printed


def test_an_empty_log_prints_nothing(run: Run) -> None:
    result = run("metalog", "tail")
    assert (result.exit_code, result.stdout) == (0, "")


def test_secrets_do_not_lie_open_in_the_tables(tmp_path: Path, run: Run, made: dict[str, Any]) -> None:
    data = tmp_path / "data"
    tables = open_tables(load(data), data)
    everything = "".join(value for _, value in tables.scan("id:"))
    tables.close()
    assert made["access_key"] in everything
    assert made["secret_key"] not in everything
