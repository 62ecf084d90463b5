"""A running service keeps what grows within limits, whatever else it does or leaves."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx
import pytest
from running_service import RunningService

MakeService = Callable[..., RunningService]
SECONDS = 60


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.2)


@pytest.mark.parametrize("lifecycle", ["on", "off"])
def test_the_metadata_log_and_the_access_log_do_not_grow_for_ever(make_service: MakeService, lifecycle: str) -> None:
    service = make_service(
        metalog__keep_days=0.00005,
        metalog__limit_days=0.00005 if lifecycle == "off" else 1,
        lifecycle__enabled="true" if lifecycle == "on" else "false",
        log__file_megabytes=0.0001,
        log__kept_files=3,
    )
    s3 = service.s3(service.create_pool("kept"))
    s3.create_bucket(Bucket="kept-bucket")
    for number in range(20):
        s3.put_object(Bucket="kept-bucket", Key=f"k{number}", Body=b"x")

    wait_for(lambda: service.cli("metalog", "statistics")["topic"]["records"] == 0, "the log is trimmed")
    for _ in range(4):
        assert httpx.get(service.s3_url).status_code == 403
        time.sleep(1.2)
    folder = service.data / "log"
    wait_for(lambda: (folder / "access.log.2").exists(), "access logs are put aside")
    assert not (folder / "access.log.4").exists()
