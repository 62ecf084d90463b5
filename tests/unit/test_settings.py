from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import settings
from tidegate.core.errors import InvalidInput


def write(data: Path, text: str) -> None:
    (data / settings.FILE_NAME).write_text(text)


def test_defaults_hold_without_any_source(tmp_path: Path) -> None:
    assert settings.load(tmp_path).gateway.port == 9000


def test_the_file_in_the_data_directory_is_read(tmp_path: Path) -> None:
    write(tmp_path, "[gateway]\nport = 9100\n")
    assert settings.load(tmp_path).gateway.port == 9100


def test_a_named_file_replaces_the_one_in_the_data_directory(tmp_path: Path) -> None:
    write(tmp_path, "[gateway]\nport = 9100\nhost = '::1'\n")
    other = tmp_path / "other.toml"
    other.write_text("[gateway]\nport = 9200\n")
    loaded = settings.load(tmp_path, config=other).gateway
    assert (loaded.port, loaded.host) == (9200, "127.0.0.1")


def test_the_environment_beats_the_file_and_set_beats_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "[gateway]\nport = 1111\nprocesses = 3\nidle_seconds = 11\n")
    monkeypatch.setenv("TIDEGATE_GATEWAY__PORT", "2222")
    monkeypatch.setenv("TIDEGATE_GATEWAY__PROCESSES", "4")
    loaded = settings.load(tmp_path, overrides=("gateway.port=3333",)).gateway
    assert (loaded.port, loaded.processes, loaded.idle_seconds) == (3333, 4, 11)


def test_the_last_of_two_overrides_counts(tmp_path: Path) -> None:
    assert settings.load(tmp_path, overrides=("gateway.port=1", "gateway.port=2")).gateway.port == 2


def test_one_changed_value_leaves_its_section_alone(tmp_path: Path) -> None:
    loaded = settings.load(tmp_path, overrides=("pools.idle_seconds=5",)).pools
    assert (loaded.idle_seconds, loaded.backend) == (5, "seaweedfs")


def test_lists_are_json_in_set_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_GATEWAY__TRUSTED_HOSTS", '["10.0.0.0/8"]')
    loaded = settings.load(tmp_path, overrides=('gateway.domains=["a.example", "b.example"]',)).gateway
    assert loaded.domains == ("a.example", "b.example")
    assert loaded.trusted_hosts == ("10.0.0.0/8",)


@pytest.mark.parametrize(
    ("override", "part_of_message"),
    [
        ("gateway.port=70000", "gateway.port"),
        ("gateway.port=-1", "gateway.port"),
        ("gateway.port=many", "gateway.port"),
        ("gateway.prot=9000", "gateway.prot: there is no such setting"),
        ("gatway.port=9000", "gatway: there is no such setting"),
        ("gateway.port", "SECTION.NAME=VALUE"),
        ("=9000", "SECTION.NAME=VALUE"),
        (".port=9000", "SECTION.NAME=VALUE"),
        ("gateway.domains=[1,", "JSON"),
        ("log.level=loud", "log.level"),
        ("pools.port_low=24990", "pools.port_high must be at least"),
        ("tables.backend=mysql", "tables.backend"),
    ],
)
def test_a_bad_override_is_refused_with_the_name_of_the_setting(
    tmp_path: Path, override: str, part_of_message: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        settings.load(tmp_path, overrides=(override,))
    assert part_of_message in str(refused.value)


@pytest.mark.parametrize("port", [0, 65535])
def test_the_bounds_of_a_port_are_inside(tmp_path: Path, port: int) -> None:
    assert settings.load(tmp_path, overrides=(f"gateway.port={port}",)).gateway.port == port


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        settings.load(tmp_path, overrides=("gateway.port=70000", "api.port=70000"))
    assert "gateway.port" in str(refused.value)
    assert "api.port" in str(refused.value)


def test_a_bad_environment_variable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_GATEWAY__DOMAINS", "[not json")
    with pytest.raises(InvalidInput):
        settings.load(tmp_path)


def test_unrelated_environment_variables_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_DATA", "/somewhere")
    assert settings.load(tmp_path) == settings.load(tmp_path)


def test_a_missing_named_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot read the settings file .*nothing\.toml"):
        settings.load(tmp_path, config=tmp_path / "nothing.toml")


def test_a_file_that_is_not_toml_is_refused_with_its_name(tmp_path: Path) -> None:
    write(tmp_path, "[gateway\n")
    with pytest.raises(InvalidInput, match=r"tidegate\.toml is not valid TOML"):
        settings.load(tmp_path)


def test_a_file_with_a_value_where_a_section_belongs_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "gateway = 5\n")
    with pytest.raises(InvalidInput, match="gateway"):
        settings.load(tmp_path)


def test_an_override_of_a_broken_section_is_refused_not_lost(tmp_path: Path) -> None:
    write(tmp_path, "[gateway]\nprot = 5\n")
    with pytest.raises(InvalidInput, match=r"gateway\.prot"):
        settings.load(tmp_path, overrides=("gateway.port=1",))


def test_dump_and_restore_keep_everything_secrets_included(tmp_path: Path) -> None:
    loaded = settings.load(tmp_path, overrides=("api.admin_token=hidden", 'gateway.domains=["a.example"]'))
    restored = settings.restore(settings.dump(loaded))
    assert restored == loaded
    assert restored.api.admin_token.get_secret_value() == "hidden"


def test_restore_does_not_look_at_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = settings.dump(settings.load(tmp_path))
    monkeypatch.setenv("TIDEGATE_GATEWAY__PORT", "2222")
    assert settings.restore(text).gateway.port == 9000


def test_secrets_do_not_show_when_settings_are_printed(tmp_path: Path) -> None:
    loaded = settings.load(tmp_path, overrides=("api.admin_token=hidden",))
    assert "hidden" not in repr(loaded)


def test_settings_cannot_be_changed_afterwards(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        settings.load(tmp_path).gateway.port = 1


def test_sources_name_where_each_value_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "[gateway]\nport = 1111\n[log]\nlevel = 'debug'\n")
    monkeypatch.setenv("TIDEGATE_LOG__LEVEL", "info")
    found = settings.sources(tmp_path, overrides=("api.port=1",))
    assert found == {
        "gateway.port": str(tmp_path / settings.FILE_NAME),
        "log.level": "environment",
        "api.port": "--set",
    }


def test_every_setting_has_a_description() -> None:
    for section in settings.Settings.model_fields:
        for name, item in settings.section_model(section).model_fields.items():
            assert item.description, f"{section}.{name}"


LOCATION = """
[locations.cold-1]
endpoint = "https://s3.example.org"
bucket = "archive"
access_key = "KEY"
secret_key = "file-secret"
"""


def test_locations_are_sections_by_name_whose_values_come_from_all_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, LOCATION)
    monkeypatch.setenv("TIDEGATE_LOCATIONS__WARM__ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("TIDEGATE_LOCATIONS__WARM__BUCKET", "warm")
    monkeypatch.setenv("TIDEGATE_LOCATIONS__WARM__ACCESS_KEY", "KEY")
    monkeypatch.setenv("TIDEGATE_LOCATIONS__WARM__SECRET_KEY", "env-secret")
    loaded = settings.load(tmp_path, overrides=("locations.cold-1.concurrency=3", "locations.warm.prefix=p/"))
    cold, warm = loaded.locations["cold-1"], loaded.locations["warm"]
    assert (cold.bucket, cold.concurrency, cold.secret_key.get_secret_value()) == ("archive", 3, "file-secret")
    assert (warm.bucket, warm.prefix, warm.secret_key.get_secret_value()) == ("warm", "p/", "env-secret")
    assert settings.restore(settings.dump(loaded)) == loaded


def test_a_location_that_cannot_be_one_is_told_with_its_reason(tmp_path: Path) -> None:
    write(tmp_path, LOCATION)
    for override, reason in (
        ("locations.cold-1.endpoint=nonsense", "not an S3 endpoint"),
        ("locations.cold-1.concurrency=0", "locations.cold-1.concurrency"),
        ("locations.cold-1.unheard_of=1", "no such setting"),
        ("locations.other.bucket=bbb", "not an S3 endpoint"),
        ("locations.Cold.bucket=bbb", "not the name of a location"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            settings.load(tmp_path, overrides=(override,))
