"""The movement page, on an API process of its own."""

from __future__ import annotations

import httpx
from api_process import Api


def test_the_movement_page_asks_for_the_token(api: Api) -> None:
    assert httpx.get(f"{api.url}/movement").status_code == 401
    assert httpx.get(f"{api.url}/movement", auth=("admin", "wrong")).status_code == 401


def test_the_movement_page_shows_locations_moves_audits_and_deletion(api: Api, client: httpx.Client) -> None:
    location = {"name": "shown", "endpoint": "http://127.0.0.1:9", "bucket": "archive", "prefix": "tidegate/"}
    made = client.post("/api/v1/locations", json={**location, "access_key": "KEY", "secret_key": "hush-hush"})
    assert made.status_code == 201, made.text
    reply = httpx.get(f"{api.url}/movement", auth=("admin", api.token))
    assert reply.status_code == 200
    for text in ("archive", "tidegate/", "Moves", "Audits of locations", "0 in flight", "No data was deleted yet"):
        assert text in reply.text
    assert "hush-hush" not in reply.text
    assert client.delete("/api/v1/locations/shown").is_success
