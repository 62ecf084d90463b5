"""Which names the API answers to."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from api_process import Api, serving

from tidegate.web.host_check import own_names


def test_the_names_are_those_of_the_address_of_the_machine_itself_and_of_the_settings() -> None:
    names = own_names("10.0.0.7", 9001, ("Tide.Example.org.", "tide.example.org:443"), tls=True)
    assert names == {
        "10.0.0.7:9001", "localhost:9001", "127.0.0.1:9001", "[::1]:9001", "tide.example.org:9001",
        "tide.example.org:443",
    }  # fmt: skip


@pytest.mark.parametrize(("port", "tls"), [(80, False), (443, True)])
def test_the_usual_port_may_be_left_out(port: int, tls: bool) -> None:
    assert {"localhost", f"localhost:{port}", "[fd00::1]", f"[fd00::1]:{port}"} <= own_names(
        "fd00::1", port, (), tls=tls
    )
    assert "localhost" not in own_names("fd00::1", port, (), tls=not tls)


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/openapi.json", "/api/v1/pools", "/nowhere"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "localhost", "", "localhost:{port}:1"]
)
def test_a_request_for_another_name_is_refused_whatever_it_asks_for(api: Api, path: str, host: str) -> None:
    port = urlsplit(api.url).port
    with api.client() as client:
        reply = client.get(path, headers={"Host": host.format(port=port)})
    assert (reply.status_code, reply.json()["error"]) == (421, "MisdirectedRequest")
    assert "api.names" in reply.json()["message"]


@pytest.mark.parametrize("host", ["localhost:{port}", "LOCALHOST.:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
def test_names_of_this_machine_are_answered(api: Api, host: str) -> None:
    port = urlsplit(api.url).port
    assert httpx.get(f"{api.url}/healthz", headers={"Host": host.format(port=port)}).status_code == 200


def test_names_in_the_settings_are_answered(tmp_path: Path) -> None:
    for api in serving(tmp_path / "data", 'api.names=["tide.example.org", "door.example.org:443"]'):
        port = urlsplit(api.url).port
        for host, status in (
            (f"tide.example.org:{port}", 200),
            ("door.example.org:443", 200),
            ("door.example.org", 421),
        ):
            assert httpx.get(f"{api.url}/healthz", headers={"Host": host}).status_code == status, host
