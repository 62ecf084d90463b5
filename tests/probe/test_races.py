"""An object that is due is rewritten, also with the same bytes, while its delete runs: no fresh object is ever lost."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from races import KINDS_OF_PLACES, Track
from running_service import RunningService

from tidegate.adapters.s3_store import S3Store
from tidegate.core.lifecycle.tasks import Outcome

RACES = int(os.environ.get("RACES", "300"))
SEED = int(os.environ.get("RACES_SEED", "1"))
BATCH = 25


@pytest.mark.timeout(300 + RACES // 3)
def test_no_fresh_object_is_lost_to_a_delete_that_runs(make_service: Callable[..., RunningService]) -> None:
    service = make_service(gateway__processes=2, lifecycle__enabled=False)
    key = service.create_pool("racing")
    store = S3Store(service.s3_url, key.access_key, key.secret_key)
    track = Track(service.s3(key, max_pool_connections=16), store, SEED)
    run = 0
    while run < RACES:
        count = min(-(-(RACES - run) // KINDS_OF_PLACES), 4 * BATCH)
        for races in track.prepare(count):
            for start in range(0, len(races), BATCH):
                batch = races[start : start + BATCH]
                track.run(batch)
                lost = track.lost(batch)
                assert not lost, f"{len(lost)} of {len(batch)}, such as {lost[0]}"
                run += len(batch)
    store.close()
    assert set(track.outcomes) == {Outcome.DONE, Outcome.NOOP_RESOLVED}, track.outcomes
    assert track.outcomes.total() == run
