"""Gateways that meet in Redis, as those of several machines do: their key locks are entries in the tables."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from busy import BUCKETS, busy_clients, busy_place, done_after
from metadata_log import settings_of
from places import Place
from raw_http import until
from replayed import compare, gateway_pids, wait_until_healed
from running_service import RunningService

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import servers

from tidegate.assembly import open_tables


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, _clean_environment: None) -> Iterator[Place]:
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as redis:
        data = tmp_path_factory.mktemp("on-redis") / "data"
        data.mkdir()
        (data / "tidegate.toml").write_text(
            f'[tables]\nbackend = "redis"\nredis_url = "redis://{redis.address}/0"\nredis_namespace = "turns"\n'
        )
        service = RunningService(data, {"gateway.healing_seconds": 10})
        try:
            yield busy_place(service.start())
        finally:
            service.end()


def test_the_log_replays_to_the_listing_and_no_turn_is_left(place: Place) -> None:
    with busy_clients(place, seed=300) as record:
        victim = max(gateway_pids(place.service))
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(gateway_pids(place.service) - {victim}) == 2)
        done_after(record, 60)
    wait_until_healed(place.service)
    compare(place.service, place.key, BUCKETS)
    with closing(open_tables(settings_of(place.service), place.service.data)) as tables:
        assert tables.scan("ot:"), "the times given out are known to all machines"
        until(lambda: not tables.scan("or:"), what="key locks were not given back")
