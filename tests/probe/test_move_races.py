"""A client changes an object while it moves: the client's change always wins, and no data is left without a reference.

`MOVE_RACES` says how many objects are raced for; `make move-races` does it 2,000 times.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest
from move_races import DELETES, PLACES, WRITES, MoveTrack, faults
from running_service import RunningService
from second_store import SecondStore

from tidegate.movement.placer import Settled

RACES = int(os.environ.get("MOVE_RACES", "60"))
SEED = int(os.environ.get("MOVE_RACES_SEED", "1"))
MOST_AT_ONCE = 40


@pytest.mark.timeout(600 + 2 * RACES)
def test_what_a_client_does_to_an_object_that_moves_is_what_is_there_afterwards(
    make_service: Callable[..., RunningService], second_store: SecondStore
) -> None:
    service = make_service(gateway__processes=2, deletion__record_seconds=2, deletion__reconsume_seconds=2)
    track = MoveTrack(service, service.create_pool("racing"), second_store, SEED)
    run, buckets = 0, set()
    while run < RACES:
        races = track.prepare(min(-(-(RACES - run) // len(PLACES)), MOST_AT_ONCE))
        track.run(races)
        wrong = [f"{race}: {found}" for race in races if (found := faults(track.s3, race))]
        assert not wrong, f"MOVE_RACES_SEED={SEED}: {len(wrong)} of {len(races)}:\n" + "\n".join(wrong[:10])
        buckets |= {race.bucket for race in races}
        run += len(races)
    track.ledger.assert_exact(buckets)
    track.close()
    # Only if now the move came first and now the change has the race been run.
    ends = Counter[str]()
    for (place, way, outcome), count in track.outcomes.items():
        if place in ("plain", "suspended") and way in WRITES | DELETES:
            ends[outcome] += count
    assert ends[Settled.PLACED] and ends[Settled.CHANGED] + ends[Settled.GONE], track.outcomes
    assert track.outcomes.total() == run
