"""The Spark session, and the inventory reports that the unit tests write."""

from __future__ import annotations

import sys
from pathlib import Path

from spark_session import spark

sys.path.append(str(Path(__file__).parents[2] / "unit" / "pipeline"))

__all__ = ["spark"]
