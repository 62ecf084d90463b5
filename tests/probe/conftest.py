"""The probes share code with the tests of the gateway."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from running_service import RunningService

sys.path.append(str(Path(__file__).parent.parent / "integration" / "gateway"))


@pytest.fixture
def make_service(make_service: Callable[..., RunningService]) -> Callable[..., RunningService]:
    """Without lifecycle, whose processes take a second of a core to start."""
    return partial(make_service, lifecycle__enabled=False)
