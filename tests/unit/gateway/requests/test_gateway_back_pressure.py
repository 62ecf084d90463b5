"""When a client may go on: a store that can take more again does not decide it alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tidegate.gateway.requests.transfer import Transfer


@pytest.mark.parametrize(
    ("receiving", "said", "paused"),
    [
        (True, [False], [True]),
        (True, [False, True], [True, False]),
        # The rest of the body is to be spliced: a byte that is read here would be missing there.
        (False, [False, True], [True]),
        (False, [True], []),
    ],
)
def test_the_client_goes_on_only_if_its_bytes_are_wanted(receiving: bool, said: list[bool], paused: list[bool]) -> None:
    heard: list[bool] = []
    exchange = SimpleNamespace(receiving=receiving, client=SimpleNamespace(pause=heard.append))
    transfer = Transfer(exchange, SimpleNamespace())  # type: ignore[arg-type]
    for writable in said:
        transfer.backend_writable(writable)
    assert heard == paused
