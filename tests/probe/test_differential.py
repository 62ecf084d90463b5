"""What the gateway admits and logs is what arrives at a store, however odd the request."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from differential import compare

COUNT = int(os.environ.get("DIFFERENTIAL_REQUESTS", "2000"))
FIRST_SEED = int(os.environ.get("DIFFERENTIAL_SEED", "0"))


@pytest.mark.timeout(300 + COUNT // 20)
def test_requests_mean_the_same_to_the_gateway_its_log_and_the_store(tmp_path: Path) -> None:
    findings = asyncio.run(compare(tmp_path / "data", first=FIRST_SEED, count=COUNT))

    print(findings.summary())
    assert findings.arrived > findings.trials // 20  # or else the requests were too odd to tell anything
    assert not findings.kinds, f"{findings.summary()}\n\n{findings.told()}"
