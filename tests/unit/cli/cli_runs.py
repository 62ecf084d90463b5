"""Commands run in the tests' own process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import Result

from tidegate.core.events import Event, EventKind

Run = Callable[..., Result]


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def put(number: int, key: str, bucket: str = "b") -> Event:
    return Event(ts_ns=number, operation=EventKind.PUT, pool="p", bucket=bucket, bucket_uid="u", key=key, size=1)
