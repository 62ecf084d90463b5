"""Locations by HTTP API, on an API process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

NEW = {
    "name": "cold",
    "endpoint": "http://127.0.0.1:1",
    "bucket": "archive",
    "access_key": "KEY",
    "secret_key": "a-secret-that-nobody-sees",
}


@pytest.fixture
def made(client: httpx.Client) -> Iterator[dict[str, Any]]:
    reply = client.post("/api/v1/locations", json=NEW)
    assert reply.status_code == 201, reply.text
    yield reply.json()
    client.delete("/api/v1/locations/cold")


def test_a_location_is_created_shown_listed_and_removed(client: httpx.Client, made: dict[str, Any]) -> None:
    assert made["storage_classes"] == ["cold"] and "secret" not in str(made)
    assert client.get("/api/v1/locations/cold").json() == made
    assert client.get("/api/v1/locations").json() == [made]
    assert client.delete("/api/v1/locations/cold").status_code == 204
    assert client.get("/api/v1/locations/cold").status_code == 404
    assert client.get("/api/v1/locations").json() == []


def test_errors_have_the_status_that_they_mean(client: httpx.Client, made: dict[str, Any]) -> None:
    for body, status in (
        (NEW, 409),
        (NEW | {"name": "Not A Name"}, 400),
        (NEW | {"name": "other", "storage_classes": ["cold"], "prefix": "o/"}, 400),
        (NEW | {"unheard-of": 1}, 422),
        (NEW | {"concurrency": 0}, 422),
        ({name: value for name, value in NEW.items() if name != "secret_key"}, 422),
    ):
        reply = client.post("/api/v1/locations", json=body)
        assert reply.status_code == status, reply.text
        assert NEW["secret_key"] not in reply.text
    for method, path in (("GET", "x"), ("DELETE", "x"), ("POST", "x/check")):
        assert client.request(method, f"/api/v1/locations/{path}").status_code == 404


def test_a_failed_check_is_an_answer(client: httpx.Client, made: dict[str, Any]) -> None:
    reply = client.post("/api/v1/locations/cold/check")
    assert reply.status_code == 200
    assert (reply.json()["ok"], reply.json()["steps"][1]["step"]) == (False, "write")
