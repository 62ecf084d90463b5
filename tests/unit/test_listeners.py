from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tidegate import listeners
from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.listeners import base_address, check_tls, open_listeners


def test_all_sockets_share_one_free_port() -> None:
    opened = open_listeners("127.0.0.1", 0, 3, "gateway")
    assert len({item.getsockname() for item in opened}) == 1
    assert opened[0].getsockname()[1] != 0
    for item in opened:
        item.close()


def test_a_port_that_another_program_listens_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "_PATIENCE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"port {port} .* in use .*--set gateway\.port"):
            open_listeners("127.0.0.1", port, 1, "gateway")


def test_a_port_that_another_service_shares_out_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "_PATIENCE_SECONDS", 0.2)
    (other,) = open_listeners("127.0.0.1", 0, 1, "gateway")
    with pytest.raises(Unavailable, match="in use"):
        open_listeners("127.0.0.1", other.getsockname()[1], 1, "gateway")
    other.close()


def test_an_unknown_host_is_refused_with_the_setting() -> None:
    with pytest.raises(InvalidInput, match=r"gateway\.host"):
        open_listeners("no.such.host.invalid", 0, 1, "gateway")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"api: cannot listen on 203\.0\.113\.1"):
        open_listeners("203.0.113.1", 0, 1, "api")


@pytest.mark.parametrize(
    ("listening", "shown"),
    [
        (("127.0.0.1", 9000), "http://127.0.0.1:9000"),
        (("0.0.0.0", 9000), "http://127.0.0.1:9000"),  # noqa: S104
        (("::1", 9000, 0, 0), "http://[::1]:9000"),
        (("::", 9000, 0, 0), "http://[::1]:9000"),
    ],
)
def test_the_base_address_is_one_that_this_machine_can_reach(listening: tuple[object, ...], shown: str) -> None:
    assert base_address(listening, tls=False) == shown
    assert base_address(listening, tls=True) == shown.replace("http:", "https:")


def test_tls_is_off_without_files_and_needs_both(tmp_path: Path) -> None:
    assert check_tls("", "", "gateway") is False
    with pytest.raises(InvalidInput, match="together"):
        check_tls("certificate.pem", "", "gateway")
    with pytest.raises(InvalidInput, match=r"gateway\.tls_certificate"):
        check_tls(str(tmp_path / "none.pem"), str(tmp_path / "none.key"), "gateway")
