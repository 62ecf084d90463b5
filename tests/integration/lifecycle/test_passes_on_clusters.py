"""Passes where Tidegate runs beyond one machine: tables in Redis, topics in Kafka, plans made on a Spark cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import as_service
import pytest
from lifecycle_world import DAY, World
from running_service import RunningService

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import servers

EXPIRE = {"Filter": {"Prefix": "old/"}, "Expiration": {"Days": 1}}
FORGET = {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}}
DOOMED = {f"old/{number:03d}" for number in range(60)}
KEPT = {f"kept/{number:03d}" for number in range(20)}


@pytest.fixture(scope="module")
def world(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = tmp_path_factory.mktemp
    data, spark_home = made("on-clusters") / "data", made("spark")
    data.mkdir()
    with (
        servers.redis_server(made("redis")) as redis,
        servers.kafka_server(made("kafka")) as kafka,
        # Executors write files for the service, and so run as its user.
        servers.spark_cluster(spark_home, as_service.prefix(spark_home, data)) as spark,
    ):
        secret = (spark_home / "spark.conf").read_text().split()[-1]
        (data / "tidegate.toml").write_text(f"""\
            tables = {{ backend = "redis", redis_url = "redis://{redis.address}/0", redis_namespace = "passes" }}
            topics = {{ backend = "kafka", kafka_servers = "{kafka.address}", lease_seconds = 3 }}
            lifecycle = {{ day_seconds = {DAY}, interval_seconds = 2 }}
            [spark]
            master = "spark://{spark.address}"
            secret = "{secret}"
            options = {{ "spark.driver.host" = "127.0.0.1", "spark.executor.memory" = "1g" }}
            """)
        service = RunningService(data)
        try:
            service.start()
            yield World(service, service.create_pool("clusters"))
        finally:
            service.end()


def test_what_is_due_goes_and_is_told_once_though_a_worker_is_killed(world: World) -> None:
    world.bucket("plain", EXPIRE)
    world.bucket("versioned", FORGET, versioning="Enabled")
    world.put("plain", *sorted(DOOMED | KEPT))
    for _ in range(2):
        world.put("versioned", *sorted(KEPT))
    newest = world.versions("versioned")
    (worker,) = world.service.pids_of("tidegate.lifecycle.serve")
    os.kill(worker, signal.SIGKILL)
    world.wait_until(lambda: world.keys("plain") == KEPT, "expiry of old objects")
    world.wait_until(lambda: len(world.versions("versioned")) == len(KEPT), "expiry of old versions")
    assert world.versions("versioned") < newest
    world.wait_for_pass()
    for bucket, told in (("plain", DOOMED), ("versioned", KEPT)):
        records = world.audits(bucket)
        assert Counter(record["key"] for record in records) == dict.fromkeys(told, 1), bucket
        assert {record["outcome"] for record in records} == {"DONE"}
    world.assert_waited("plain", "delete", world.put_times("plain"))
    assert {version["key"] for version in world.events("versioned", "delete")} == KEPT


def test_a_pass_with_nothing_due_plans_nothing(world: World) -> None:
    world.bucket("idle", EXPIRE)
    world.put("idle", *sorted(KEPT))
    world.wait_until(lambda: bool(world.reports_of("idle")), "a pass that knows the bucket")
    report = world.run_pass(bucket="idle")
    assert (report["status"], report["buckets"], report["planned"], report["details"]) == ("ok", 1, 0, []), report
    assert world.keys("idle") == KEPT and not world.audits("idle")
