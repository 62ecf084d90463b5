"""Processes are killed at random points while objects move: every object is readable at any moment, and in the end the
location and the stores hold exactly what records refer to.

`MOVE_KILLS` says how often something is killed; `make move-kills` does it 200 times.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
from move_kills import MOVED, STATES, VICTIMS, Fleet, kill_one
from move_ledger import Ledger, wait_until
from running_service import RunningService
from second_store import SecondStore

KILLS = int(os.environ.get("MOVE_KILLS", "6"))
SEED = int(os.environ.get("MOVE_KILLS_SEED", str(random.randrange(10**6))))
OBJECTS = 8


@pytest.mark.timeout(900 + 30 * KILLS)
def test_killed_at_random_points_objects_stay_readable_and_nothing_is_left_over(
    make_service: Callable[..., RunningService], second_store: SecondStore
) -> None:
    print(f"MOVE_KILLS_SEED={SEED}")
    chance = random.Random(SEED)
    service = make_service(
        gateway__processes=2,
        lifecycle__enabled=True,
        lifecycle__engine="listing",
        lifecycle__day_seconds=2,
        lifecycle__interval_seconds=1,
        lifecycle__minimum_transition_bytes=0,
        deletion__record_seconds=2,
        deletion__reconsume_seconds=2,
        movement__retry_seconds=[1, 1, 2, 2],
        topics__lease_seconds=3,
    )
    fleet = Fleet(Ledger(service, service.create_pool("killed"), second_store, "cold"), chance)
    fleet.fill(OBJECTS)
    readers = fleet.reading()
    moves: list[str] = []
    for number in range(KILLS):
        moves += [fleet.ask_to_move(back=chance.random() < 0.5) for _ in range(2)]
        fleet.add()
        time.sleep(chance.uniform(0, 3))
        kill_one(service, VICTIMS[number % len(VICTIMS)], chance)
        assert fleet.wrong == []
    fleet.wait_for_moves(moves)
    fleet.wait_for_moves([fleet.move_all(bucket) for bucket in STATES])
    wait_until(lambda: not fleet.left_by_lifecycle(), lambda: f"not moved: {fleet.left_by_lifecycle()}")
    fleet.stop_reading(readers)
    fleet.check_all()
    assert fleet.wrong == []
    assert fleet.reads > KILLS
    fleet.ledger.assert_exact(STATES)
    assert {record.key.startswith(MOVED) for record in fleet.ledger.placements()} == {True, False}
    fleet.ledger.close()
