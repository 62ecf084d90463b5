"""Processes are killed at random points while clients write and all is replicated to two stores: in the end source and
sites agree, version by version.

`REPLICATION_KILLS` says how often something is killed; `make replication-kills` does it 100 times.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
from move_kills import kill_one
from replication_kills import VICTIMS, Writers
from replication_ledger import ReplicationLedger
from running_service import RunningService
from second_store import SecondStore

KILLS = int(os.environ.get("REPLICATION_KILLS", "3"))
SEED = int(os.environ.get("REPLICATION_KILLS_SEED", str(random.randrange(10**6))))
WRITERS = 3


@pytest.mark.timeout(900 + 30 * KILLS)
def test_killed_at_random_points_source_and_sites_agree_in_the_end(
    make_service: Callable[..., RunningService], make_store: Callable[..., SecondStore]
) -> None:
    print(f"REPLICATION_KILLS_SEED={SEED}")
    chance = random.Random(SEED)
    service = make_service(
        gateway__processes=2,
        lifecycle__enabled=True,
        lifecycle__engine="listing",
        deletion__record_seconds=2,
        deletion__reconsume_seconds=2,
        replication__retry_seconds=[0.5] * 20,
        replication__part_mb=5,
        topics__lease_seconds=3,
    )
    ledger = ReplicationLedger(service, service.create_pool("killed"), {"north": make_store(), "south": make_store()})
    ledger.make_bucket("killed")
    writers = Writers(ledger, "killed")
    writers.begin(WRITERS, SEED)
    for number in range(KILLS):
        time.sleep(chance.uniform(0.2, 3))
        kill_one(service, VICTIMS[number % len(VICTIMS)], chance)
        writers.check()
    time.sleep(chance.uniform(0, 2))
    writers.end()
    assert writers.writes > KILLS
    ledger.wait_until_arrived("killed")
    ledger.assert_verified("killed")
    ledger.assert_alike("killed")
