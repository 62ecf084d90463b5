"""What a manager does while the tables, here a Redis server, cannot be reached."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from pool_world import alive, make_world, wait_until

from tidegate.core.errors import Unavailable

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import servers


def test_a_short_outage_is_survived_and_a_long_one_stops_the_backend(tmp_path: Path) -> None:
    def kill() -> None:
        redis.process.kill()
        redis.process.wait()

    def start_again() -> None:
        redis.process = subprocess.Popen(redis.process.args, stdout=subprocess.DEVNULL)
        wait_until(reachable)

    def reachable() -> bool:
        try:
            world.tables.get("po:demo")
        except Unavailable:
            return False
        return True

    (tmp_path / "redis").mkdir()
    with servers.redis_server(tmp_path / "redis") as redis:
        world = make_world(tmp_path, "tables.backend=redis", f"tables.redis_url=redis://{redis.address}/0")
        world.create("demo")
        world.wake("demo")
        pids = world.pids("demo")
        time.sleep(1)  # the server writes its log every second
        kill()
        start_again()
        world.registry.create_bucket("bucket", "demo", now=time.time())
        world.registry.wait_applied("demo", 90)
        assert world.pids("demo") == pids
        kill()
        wait_until(lambda: not any(alive(pid) for pid in pids))
        start_again()
        world.wake("demo")
        assert set(world.pids("demo")).isdisjoint(pids)
        world.close()
        redis.stop()
