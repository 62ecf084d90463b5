"""The Spark session, the rules and versions that the core's tests generate, and the store of lifecycle's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from spark_session import spark

sys.path.append(str(Path(__file__).parents[1] / "core" / "lifecycle"))
sys.path.append(str(Path(__file__).parents[1] / "lifecycle"))


@pytest.fixture(scope="session")
def ruled_histories():
    """Generated histories, each with rules; the tests of all ways to a plan use the same."""
    from history_cases import HISTORIES, generated_histories

    return generated_histories(HISTORIES)


__all__ = ["spark"]
