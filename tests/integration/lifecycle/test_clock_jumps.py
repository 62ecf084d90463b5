"""A service whose clock is far from the last time that was seen: it waits until somebody says that it is right."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx
from lifecycle_world import World
from running_service import RunningService

from tidegate.assembly import open_tables
from tidegate.lifecycle.passes.clock_guard import SEEN
from tidegate.settings import load

DAY_NS = 86_400 * 1_000_000_000


def test_no_pass_begins_until_the_clock_is_confirmed(make_service: Callable[..., RunningService]) -> None:
    service = make_service(
        lifecycle__engine="listing", lifecycle__day_seconds=1, lifecycle__interval_seconds=1, gateway__processes=1
    )
    world = World(service, service.create_pool("jump"))
    world.bucket("due")
    service.end()
    # As if the clock had jumped by a month since.
    tables = open_tables(load(service.data), service.data)
    tables.put(SEEN, str(time.time_ns() - 30 * DAY_NS))
    tables.close()
    service.start()
    world.s3 = service.s3(world.key)
    world.put("due", "a", "b")
    world.rules("due", {"Expiration": {"Days": 1}})
    before = len(world.passes())
    with service.api() as api:
        world.wait_until(lambda: bool(api.get("/api/v1/lifecycle").json()["clock_problems"]), "a clock problem")
        assert api.post("/api/v1/passes", json={}).status_code == 409
        assert "30.0 days after" in api.get("/api/v1/passes/current").json()["refused"]
        assert "tidegate_s3_lifecycle_clock_problems 1.0" in api.get("/metrics").text
    time.sleep(3)  # the objects are due, and rounds would come every second
    assert world.keys("due") == {"a", "b"} and len(world.passes()) == before
    assert "a clock is not believed" in httpx.get(service.api_url).text
    assert service.log().count("no pass begins: the clock shows") == 1
    refused = service.run_cli("pass", "run")
    assert refused.returncode == 1 and "confirm-clock" in refused.stderr
    assert service.cli("lifecycle", "confirm-clock")["clock_seen"]
    world.wait_until(lambda: not world.keys("due"), "expiry")
    with service.api() as api:
        world.wait_until(lambda: not api.get("/api/v1/lifecycle").json()["clock_problems"], "a clean state")
