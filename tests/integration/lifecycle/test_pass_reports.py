"""Passes of the running service: the right recovery for the right bucket, one that is blocked, pools that sleep on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from lifecycle_world import World

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.lifecycle.cursors import CURSORS
from tidegate.core.records import Bucket, Key
from tidegate.pools.catalogue import ENDPOINT, keys_of, next_generation

EXPIRE = {"Expiration": {"Days": 1}}
# Far away, and within the time for which the log table is kept: replay alone finds it.
MUCH_LATER = {"Expiration": {"Days": 300}}
SHARDS = 16


@pytest.fixture
def tables(world: World) -> Iterator[SqliteTables]:
    opened = SqliteTables(world.service.data / "tables.db")
    yield opened
    opened.close()


def recoveries(world: World, bucket: str) -> list[dict[str, int]]:
    return [detail["recoveries"] for detail in world.reports_of(bucket) if detail["recoveries"]]


def uid_of(tables: SqliteTables, bucket: str) -> str:
    return Bucket.from_json(str(tables.get(Bucket.PREFIX + bucket))).uid


def test_a_new_bucket_an_edited_rule_and_a_bucket_made_anew_are_walked_and_no_other_bucket_is(
    world: World, tables: SqliteTables
) -> None:
    edited, remade = world.bucket("edited", MUCH_LATER), world.bucket("remade", MUCH_LATER)
    world.put(edited, "a")
    world.wait_until(lambda: bool(recoveries(world, edited) and recoveries(world, remade)), "two cold starts")
    world.rules(edited, EXPIRE)
    world.wait_until(lambda: not world.keys(edited), "what the edited rule makes due")
    old_uid = uid_of(tables, remade)
    world.s3.delete_bucket(Bucket=remade)
    world.bucket(remade, MUCH_LATER)
    world.wait_until(lambda: len(recoveries(world, remade)) == 2, "another cold start")
    assert recoveries(world, edited) == [{"cold-start": SHARDS}, {"rule-edit": SHARDS}]
    assert recoveries(world, remade) == [{"cold-start": SHARDS}] * 2
    assert world.reports_of(remade)[-1]["uid"] == uid_of(tables, remade) != old_uid
    world.wait_until(lambda: tables.get(CURSORS + old_uid) is None, "forgotten cursors")


def test_a_bucket_whose_deletes_are_refused_blocks_only_itself_and_catches_up(
    world: World, tables: SqliteTables
) -> None:
    refusing = World(world.service, world.service.create_pool("refusing"), asks=True)
    refused, fine = refusing.bucket("refused", EXPIRE), world.bucket("fine", EXPIRE)
    world.wait_until(lambda: any(key.internal for key in keys_of(tables, "refusing")), "the service key")
    (key,) = [key for key in keys_of(tables, "refusing") if key.internal]
    tables.put(Key.PREFIX + key.access_key, replace(key, policy="readonly").to_json())
    next_generation(tables, "refusing")
    time.sleep(1.5)  # until the gateways have forgotten the old policy
    refusing.put(refused, "a")
    world.put(fine, "a")
    world.sleep_until_due()

    def blocked() -> list[dict[str, Any]]:
        return [detail for detail in world.reports_of(refused) if detail["outcomes"].get("BLOCKED")]

    world.wait_until(lambda: not world.keys(fine) and bool(blocked()), "a pass that is blocked")
    assert refusing.keys(refused) == {"a"}
    assert not any(detail["outcomes"].get("BLOCKED") for detail in world.reports_of(fine))
    lag = blocked()[-1]["lag_seconds"]
    world.wait_until(lambda: blocked()[-1]["lag_seconds"] > lag, "a bucket that falls behind")
    assert any(report["status"] == "blocked" for report in world.passes())
    metric = f'tidegate_s3_lifecycle_bucket_lag_seconds{{bucket="{uid_of(tables, refused)}"}}'
    with world.service.api() as api:
        assert metric in api.get("/metrics").text
    tables.put(Key.PREFIX + key.access_key, key.to_json())
    next_generation(tables, "refusing")
    refusing.wait_until(lambda: not refusing.keys(refused), "expiry after the store healed")
    outcomes = [record["outcome"] for record in refusing.audits(refused)]
    assert outcomes.count("DONE") == 1 and set(outcomes) == {"DONE", "BLOCKED"}
    assert world.run_pass()["status"] == "ok"


def test_a_pass_with_nothing_due_wakes_no_pool(world: World, tables: SqliteTables) -> None:
    sleeper = World(world.service, world.service.create_pool("sleeper"))
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    sleeper.bucket("by-days", MUCH_LATER)
    sleeper.bucket("by-walking", {"Expiration": {"ExpiredObjectDeleteMarker": True}}, versioning="Enabled")
    sleeper.bucket("by-past-date", {"Filter": {"Prefix": "x/"}, "Expiration": {"Date": long_ago}})
    for bucket in ("by-days", "by-walking", "by-past-date"):
        sleeper.put(bucket, "a")
    # The first walk, and another one that sees the end of what was changed while the first one ran.
    time.sleep(2)
    for _ in range(2):
        world.wait_for_pass()
    world.service.cli("pool", "stop", "sleeper")
    world.wait_until(lambda: tables.get(ENDPOINT + "sleeper") is None, "the pool asleep")
    for _ in range(3):
        world.wait_for_pass()
    assert tables.get(ENDPOINT + "sleeper") is None
    assert sleeper.keys("by-days") == {"a"}  # which wakes it
