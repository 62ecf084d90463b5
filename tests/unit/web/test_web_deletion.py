"""Deletion, its dead letters and purges over HTTP."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import httpx
from api_process import Api

from tidegate.assembly import open_topics
from tidegate.core.pending_deletes import Component, DataType, PendingDelete
from tidegate.movement.pending_deletes import record_of
from tidegate.movement.topics import DELETION_GROUP, create_deletion_topics


def give_up(api: Api, key: str) -> None:
    pending = PendingDelete(
        component=Component.PLACEMENT,
        data_type=DataType.LOCATION,
        pool="pool",
        bucket="photos",
        bucket_uid="uid",
        key=key,
        version_id="null",
        sent_ns=1,
        location="cold",
        data_key="pool/uid/1",
    )
    with closing(open_topics(api.settings, api.directory.path)) as topics:
        create_deletion_topics(topics, api.settings.deletion)
        topics.append("deletion", [record_of(pending)])
        consumer = topics.consumer("deletion", DELETION_GROUP)
        (message,) = consumer.poll(1, 10.0)
        consumer.dead_letter(message, "no way")
        consumer.close()


def letters(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/deletion/dead").raise_for_status().json()
    return found


def test_dead_letters_are_seen_sent_back_and_discarded(api: Api, client: httpx.Client) -> None:
    give_up(api, "one")
    (letter,) = letters(client)
    assert (letter["key"], letter["reason"], letter["message"]["location"]) == ("one", "no way", "cold")
    path = f"/api/v1/deletion/dead/{letter['id']}"
    assert client.get(path).raise_for_status().json() == letter
    assert client.get("/api/v1/deletion").raise_for_status().json()["dead"] == 1
    assert client.post(f"{path}/retry").raise_for_status().json()["id"] == letter["id"]
    assert letters(client) == []
    assert client.get("/api/v1/deletion").json() == {"enabled": True, "in_flight": 1, "retrying": 0, "dead": 0}
    assert client.get(path).status_code == 404
    with closing(open_topics(api.settings, api.directory.path)) as topics:
        consumer = topics.consumer("deletion", DELETION_GROUP)
        consumer.acknowledge(consumer.poll(1, 10.0))
        consumer.close()
    give_up(api, "two")
    (letter,) = letters(client)
    assert client.delete(f"/api/v1/deletion/dead/{letter['id']}").status_code == 204
    assert letters(client) == []


def test_what_is_no_dead_letter_is_refused(client: httpx.Client) -> None:
    assert client.get("/api/v1/deletion/dead/nonsense").status_code == 400
    assert client.post("/api/v1/deletion/dead/0:999/retry").status_code == 404


def test_the_history_is_empty_at_first(client: httpx.Client) -> None:
    assert client.get("/api/v1/deletion/history", params={"bucket": "none"}).raise_for_status().json() == []


def test_a_purge_needs_the_name_of_the_bucket_and_the_gateways(client: httpx.Client, pool: dict[str, Any]) -> None:
    name = f"purged-of-{pool['pool']}"
    client.post("/api/v1/buckets", json={"name": name, "pool": pool["pool"]}).raise_for_status()
    refused = client.post(f"/api/v1/buckets/{name}/purge", json={"confirm": "another"})
    assert refused.status_code == 400 and "confirm it with its name" in refused.json()["message"]
    assert client.post(f"/api/v1/buckets/{name}/purge", json={"confirm": name}).status_code == 503
    assert client.post("/api/v1/buckets/no-such-bucket/purge", json={"dry_run": True}).status_code == 404


def test_without_the_token_nothing_is_told(api: Api) -> None:
    with api.client("") as stranger:
        assert stranger.get("/api/v1/deletion").status_code == 401
