"""Moves by HTTP API, on an API process of its own."""

from __future__ import annotations

import httpx


def test_what_cannot_be_moved_is_refused(client: httpx.Client) -> None:
    for body, status in (
        ({"bucket": "nowhere", "to": "cold"}, 404),
        ({"bucket": "nowhere"}, 400),
        ({"bucket": "nowhere", "to": "cold", "back": True}, 400),
        ({"bucket": "nowhere", "unheard-of": 1}, 422),
        ({"to": "cold"}, 422),
    ):
        assert client.post("/api/v1/moves", json=body).status_code == status
    assert client.get("/api/v1/moves/nothing").status_code == 404
    assert client.get("/api/v1/moves").json() == []


def test_a_move_is_accepted_and_can_be_looked_at(client: httpx.Client) -> None:
    assert client.post("/api/v1/pools", json={"name": "moved"}).status_code == 201
    assert client.post("/api/v1/buckets", json={"name": "moved", "pool": "moved"}).status_code == 201
    reply = client.post("/api/v1/moves", json={"bucket": "moved", "prefix": "a/", "back": True})
    assert reply.status_code == 202
    asked = reply.json()
    assert (asked["bucket"], asked["prefix"], asked["back"], asked["status"]) == ("moved", "a/", True, "listing")
    assert client.get(f"/api/v1/moves/{asked['id']}").json() == asked
    assert client.get("/api/v1/moves").json() == [asked]
