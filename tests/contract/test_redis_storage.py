"""What the Redis adapter leaves on the server, and what it says when the server fails it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import servers

from tidegate.adapters.redis_tables import RedisTables
from tidegate.core.errors import InvalidInput, Unavailable


@pytest.fixture
def namespace() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def tables(redis_address: str, namespace: str) -> Iterator[RedisTables]:
    opened = RedisTables(f"redis://{redis_address}/0", namespace=namespace)
    yield opened
    opened.close()


@pytest.fixture
def server(redis_address: str) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(f"redis://{redis_address}/0", decode_responses=True)
    yield client
    client.close()


def test_value_order_and_expiry_stand_in_three_places(tables: RedisTables, server: redis.Redis, namespace: str) -> None:
    tables.put("kept", "1")
    tables.put("expires", "2", expires_in=100)
    assert server.get(f"{{{namespace}}}:v:kept") == "1"
    assert server.ttl(f"{{{namespace}}}:v:kept") == -1
    assert 90 < server.ttl(f"{{{namespace}}}:v:expires") <= 100
    assert server.zrange(f"{{{namespace}}}:keys", 0, -1) == ["expires", "kept"]
    assert server.zrange(f"{{{namespace}}}:expiries", 0, -1) == ["expires"]


def test_nothing_is_left_of_deleted_keys(tables: RedisTables, server: redis.Redis, namespace: str) -> None:
    tables.put("a", "1", expires_in=100)
    tables.put("b", "1")
    tables.delete("a")
    assert tables.compare_and_set("b", "1", None)
    assert server.keys(f"{{{namespace}}}:*") == []


def test_expired_keys_are_swept_by_a_later_write(tables: RedisTables, server: redis.Redis, namespace: str) -> None:
    for number in range(20):
        tables.put(f"gone{number}", "v", expires_in=2.0)
    time.sleep(2.1)
    assert server.zcard(f"{{{namespace}}}:keys") == 20
    tables.put("stays", "v")
    assert server.zrange(f"{{{namespace}}}:keys", 0, -1) == ["stays"]
    assert server.zcard(f"{{{namespace}}}:expiries") == 0


def test_installations_on_one_server_do_not_see_each_other(tables: RedisTables, redis_address: str) -> None:
    other = RedisTables(f"redis://{redis_address}/0", namespace=uuid.uuid4().hex)
    tables.put("k", "mine")
    assert other.get("k") is None
    assert other.put_if_absent("k", "theirs")
    assert tables.scan("") == [("k", "mine")]
    other.close()


def test_server_that_forgot_the_scripts_is_told_again(tables: RedisTables, server: redis.Redis) -> None:
    tables.put("k", "1")
    server.script_flush()
    assert tables.compare_and_set("k", "1", "2")
    assert tables.scan("k") == [("k", "2")]


def test_absent_server_is_unavailable() -> None:
    tables = RedisTables("redis://127.0.0.1:1/0")
    with pytest.raises(Unavailable, match="Redis"):
        tables.get("k")
    with pytest.raises(Unavailable, match="Redis"):
        tables.put("k", "v")
    tables.close()


def test_server_out_of_memory_is_unavailable_and_nothing_is_half_written(tmp_path: Path) -> None:
    with servers.redis_server(tmp_path) as own:
        tables = RedisTables(f"redis://{own.address}/0")
        admin = redis.Redis.from_url(f"redis://{own.address}/0")
        admin.config_set("maxmemory", 1)
        with pytest.raises(Unavailable, match="memory"):
            tables.put("k", "v")
        admin.config_set("maxmemory", 0)
        assert tables.scan("") == []
        assert tables.put_if_absent("k", "v")
        tables.close()
        admin.close()


def test_entries_survive_a_killed_server(tmp_path: Path) -> None:
    with servers.redis_server(tmp_path) as first:
        tables = RedisTables(f"redis://{first.address}/0")
        redis.Redis.from_url(f"redis://{first.address}/0").config_set("appendfsync", "always")
        tables.put("k", "v")
        tables.put("m", "w", expires_in=3600)
        first.process.kill()
        first.process.wait()
        with pytest.raises(Unavailable):
            tables.get("k")
        tables.close()
    with servers.redis_server(tmp_path) as second:
        tables = RedisTables(f"redis://{second.address}/0")
        assert tables.scan("") == [("k", "v"), ("m", "w")]
        tables.close()


def test_unusable_address_is_refused_without_repeating_the_password() -> None:
    with pytest.raises(InvalidInput) as refused:
        RedisTables("redis://user:secret@host:port/x")
    assert "secret" not in str(refused.value)
