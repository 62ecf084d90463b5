"""The probes share code with the tests of the gateway."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "integration" / "gateway"))
