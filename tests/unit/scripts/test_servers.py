"""Ports for servers of tests that run side by side."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import servers


@pytest.fixture(autouse=True)
def _none_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_given_ports", set())
    monkeypatch.setattr(servers, "_WORKER_PORTS", 40)


def test_every_worker_has_ports_of_its_own_and_gets_none_twice_until_it_has_got_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: dict[str, list[int]] = {}
    for worker in ("gw0", "gw1", "gw5"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        found[worker] = [servers.free_port() for _ in range(20)]
    assert len({port for ports in found.values() for port in ports}) == 60
    monkeypatch.setattr(servers, "_given_ports", set(range(27000, 32000)))
    assert 27000 <= servers.free_port() < 32000


def test_a_worker_without_free_ports_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_WORKER_PORTS", 1)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(servers, "_FIRST_PORT", taken.getsockname()[1])
        with pytest.raises(servers.ServerError, match="no port is free"):
            servers.free_port()
