from __future__ import annotations

import sys
from pathlib import Path

# Purges go by the store in memory of lifecycle's tests.
sys.path.append(str(Path(__file__).parent.parent / "lifecycle"))
