"""Locations at real stores: what their health check finds, and limits on the way there."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from authorities import Authority
from running_service import RunningService
from second_store import SecondStore

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.assembly import open_location
from tidegate.movement.location_check import CheckResult
from tidegate.movement.locations import Locations
from tidegate.pools.vault import Vault

MIB = 1024 * 1024


@pytest.fixture
def locations(tmp_path: Path) -> Iterator[Locations]:
    tables = SqliteTables(tmp_path / "tables.db")
    made = Locations(tables, Vault.open(tmp_path), {}, open_location)
    yield made
    made.close()
    tables.close()


def options(store: SecondStore, **changes: Any) -> dict[str, Any]:
    given = {"endpoint": store.url, "bucket": store.bucket, "access_key": store.access_key}
    return {**given, "secret": store.secret_key, "now": 1.0, **changes}


def steps_of(result: CheckResult) -> dict[str, bool]:
    return {step.step: step.ok for step in result.steps}


def test_a_sound_location_passes_every_step_and_nothing_is_left_there(
    locations: Locations, second_store: SecondStore
) -> None:
    locations.create("cold", **options(second_store, prefix="checked/"))
    result = locations.check("cold")
    assert (result.ok, result.message) == (True, "")
    assert steps_of(result) == dict.fromkeys(("connect", "write", "read", "head", "delete"), True)
    assert second_store.keys(prefix="checked/") == set()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"secret": "wrong"}, "write: .*SignatureDoesNotMatch"),
        ({"access_key": "UNKNOWN"}, "write: .*InvalidAccessKeyId"),
        ({"bucket": "no-such-bucket"}, "write: .*NoSuchBucket"),
    ],
)
def test_what_is_wrong_is_told_by_its_step(
    locations: Locations, second_store: SecondStore, changes: dict[str, str], reason: str
) -> None:
    locations.create("cold", **options(second_store, **changes))
    result = locations.check("cold")
    assert not result.ok and not steps_of(result)["write"] and "read" not in steps_of(result)
    assert re.match(reason, result.message), result.message


def test_a_location_that_was_down_is_sound_again_without_being_made_anew(
    locations: Locations, make_store: Callable[..., SecondStore]
) -> None:
    store = make_store()
    locations.create("cold", **options(store))
    assert locations.check("cold").ok
    store.stop()
    assert "does not answer" in locations.check("cold").message
    store.start()
    assert locations.check("cold").ok


def test_a_certificate_is_trusted_only_if_its_authority_is_named(
    locations: Locations, make_store: Callable[..., SecondStore], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority")
    certificate, private_key = authority.certificate_for("127.0.0.1")
    store = make_store(certificate=certificate, private_key=private_key, authority=authority.file)
    locations.create("trusted", **options(store, ca_file=str(authority.file), prefix="t/"))
    locations.create("stranger", **options(store, prefix="s/"))
    assert locations.check("trusted").ok
    assert "is not trusted" in locations.check("stranger").message


def test_data_is_whole_under_limits_and_many_threads(locations: Locations, second_store: SecondStore) -> None:
    limited = options(second_store, prefix="limited/", concurrency=2, bytes_per_second=40 * MIB)
    location = locations.create("cold", **limited)
    store = locations.store("cold")
    contents = {f"limited/{number}": bytes([number]) * (MIB + number) for number in range(12)}
    found: dict[str, bytes] = {}

    def carry(key: str, data: bytes) -> None:
        etag = store.put(location.bucket, key, data)
        with store.open(location.bucket, key, if_match=etag) as stream:
            found[key] = b"".join(stream.chunks)

    threads = [threading.Thread(target=carry, args=item) for item in contents.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == contents


def test_a_bucket_of_a_pool_can_be_a_location_and_the_commands_work_on_a_running_service(
    make_service: Callable[..., RunningService], fresh_name: Callable[[str], str], tmp_path: Path
) -> None:
    service = make_service(lifecycle__enabled=False)
    name, key = fresh_name("location"), service.create_pool(fresh_name("target"))
    service.s3(key).create_bucket(Bucket=name)
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text(key.secret_key)
    given = ["--endpoint", service.s3_url, "--bucket", name, "--access-key", key.access_key]
    service.cli("location", "create", name, *given, "--secret-key-file", str(secret))
    try:
        done = service.run_cli("location", "check", name, "--json")
        assert json.loads(done.stdout)["ok"], done.stdout
        with service.api() as api:
            assert api.post(f"/api/v1/locations/{name}/check").json()["ok"]
        assert service.s3(key).list_objects_v2(Bucket=name)["KeyCount"] == 0
    finally:
        service.cli("location", "remove", name, "--yes")
    assert name not in {each["name"] for each in service.cli("location", "list")}
