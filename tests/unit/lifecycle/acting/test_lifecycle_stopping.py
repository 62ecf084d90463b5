"""Lifecycle is stopped at once: nothing more is deleted, what is queued is dropped, and planned again afterwards."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from threading import Thread

import pytest
from lifecycle_place import DAYS, LifecyclePlace, rule_set
from memory_store import MemoryStore

from tidegate.core.errors import Conflict, NotFound, Refused
from tidegate.core.lifecycle.tasks import Outcome
from tidegate.lifecycle.acting import stop_switch
from tidegate.lifecycle.acting.stop_switch import StopReader, StopSwitch, read_stops
from tidegate.lifecycle.buckets.cursor_store import CursorStore
from tidegate.lifecycle.passes.pass_records import PassOrder, PassRequests, PassStatus, new_pass_id
from tidegate.lifecycle.queries.control import LifecycleControl
from tidegate.lifecycle.queries.pass_inspection import PassInspector
from tidegate.lifecycle.topics import WORKERS, backlog
from tidegate.workers.rate import Members

ONE = 1_800_000_000.0
OLD = 1000.0


@pytest.fixture(autouse=True)
def _always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_switch, "_LOOK_SECONDS", 0.0)


@pytest.fixture
def store(place: LifecyclePlace) -> MemoryStore:
    return place.pool()


def switch(place: LifecyclePlace) -> StopSwitch:
    return StopSwitch(place.tables, place.topics)


def act(place: LifecyclePlace, *, at_once: int = 500) -> None:
    processor = place.object_processor()
    processor.size.current = at_once
    while processor.run_once():
        pass
    processor.close()


def queue(place: LifecyclePlace, store: MemoryStore, name: str = "photos", count: int = 20) -> None:
    """Objects that are due, each with a task that waits."""
    for number in range(count):
        store.put(f"{name}-{number:04d}", OLD)
    place.bucket(name, rule_set(DAYS))
    place.plan(now=OLD + 10_000)
    assert backlog(place.topics) == len(place.object_tasks())


def outcomes(place: LifecyclePlace) -> dict[tuple[str, str], int]:
    return Counter((record.outcome.value, record.reason) for record in place.audits())


def test_while_it_is_stopped_what_is_queued_is_dropped_and_recorded(place: LifecyclePlace, store: MemoryStore) -> None:
    queue(place, store)
    switch(place).stop(now_ns=1)
    act(place)
    assert len(store.versions) == 20 and not [one for one in store.requests if one.startswith("delete")]
    assert outcomes(place) == {("STOPPED", "lifecycle is stopped"): 20}
    assert backlog(place.topics) == 0
    assert not Outcome.STOPPED.is_settled


def test_after_the_stop_what_was_queued_is_not_carried_out_and_what_is_planned_then_is(
    place: LifecyclePlace, store: MemoryStore
) -> None:
    queue(place, store)
    switch(place).stop(now_ns=1)
    switch(place).resume(now_ns=2)
    act(place)
    assert len(store.versions) == 20
    assert outcomes(place) == {("STOPPED", "it was queued before lifecycle was stopped"): 20}
    place.plan(now=OLD + 10_000, pass_id="again")
    act(place)
    assert store.versions == {}


def test_a_request_under_way_is_finished_and_none_is_sent_after_it(place: LifecyclePlace, store: MemoryStore) -> None:
    place.settings = place.settings.model_copy(update={"listing_limit": 1000})
    queue(place, store, count=3000)
    store.before_delete = lambda: (switch(place).stop(now_ns=1), None)[1]
    act(place, at_once=3000)
    sizes = [int(request.split()[1]) for request in store.requests if request.startswith("delete")]
    assert 1 <= len(sizes) <= 2  # as many as there are threads
    assert len(store.versions) == 3000 - sum(sizes)
    assert outcomes(place) == {("DONE", ""): sum(sizes), ("STOPPED", "lifecycle is stopped"): 3000 - sum(sizes)}


def test_a_bucket_can_be_stopped_by_itself(place: LifecyclePlace, store: MemoryStore) -> None:
    films = place.pool("cinema")
    for number in range(5):
        films.put(f"film-{number}", OLD)
    place.bucket("films", rule_set(DAYS), pool="cinema")
    queue(place, store)
    switch(place).stop("photos", now_ns=1)
    act(place)
    assert (len(store.versions), films.versions) == (20, {})
    assert outcomes(place) == {("STOPPED", "lifecycle is stopped in this bucket"): 20, ("DONE", ""): 5}
    with pytest.raises(NotFound):
        switch(place).stop("missing", now_ns=1)
    with pytest.raises(NotFound):
        switch(place).resume("missing", now_ns=1)
    assert switch(place).resume("photos", now_ns=2).why_stopped(place.registry.bucket("photos").uid) == ""


def test_what_was_left_when_lifecycle_was_switched_off_is_not_carried_out_later(
    place: LifecyclePlace, store: MemoryStore
) -> None:
    queue(place, store)
    switch(place).void_queued(now_ns=1)
    act(place)
    assert len(store.versions) == 20
    assert outcomes(place) == {("STOPPED", "it was queued before lifecycle was stopped"): 20}


def test_a_machine_without_lifecycle_leaves_alone_what_another_has_queued(
    place: LifecyclePlace, store: MemoryStore
) -> None:
    queue(place, store)
    elsewhere = Members(place.tables, WORKERS)
    elsewhere.name = "elsewhere:1"
    elsewhere.renew()
    switch(place).void_queued(now_ns=1)
    act(place)
    assert store.versions == {}


def test_workers_look_again_after_a_moment(place: LifecyclePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_switch, "_LOOK_SECONDS", 0.25)
    now = 100.0
    reader = StopReader(place.tables, clock=lambda: now)
    assert not reader.current().everything
    switch(place).stop(now_ns=1)
    now += 0.2
    assert not reader.current().everything
    now += 0.1
    assert reader.current().everything


# --- passes ---------------------------------------------------------------------------------------


def order(now: float, *, bucket: str = "", dry_run: bool = False) -> PassOrder:
    return PassOrder(new_pass_id(int(now * 1e9)), "request", int(now * 1e9), 0, bucket, dry_run)


def test_no_pass_begins_while_it_is_stopped_and_a_missed_round_is_made_up_for(
    place: LifecyclePlace, store: MemoryStore
) -> None:
    place.bucket("photos", rule_set(DAYS))
    conductor = place.conductor(interval_seconds=10)
    assert conductor.run_once(ONE) is not None
    switch(place).stop(now_ns=1)
    assert [conductor.run_once(ONE + number) for number in (10, 20, 30)] == [None] * 3
    with pytest.raises(Conflict, match="stopped; resume it with"):
        conductor.start(order(ONE + 31), "listing")
    switch(place).resume(now_ns=2)
    assert conductor.run_once(ONE + 32) is not None


def test_a_pass_that_waits_does_not_begin_and_a_dry_run_behind_it_does(
    place: LifecyclePlace, store: MemoryStore
) -> None:
    place.bucket("photos", rule_set(DAYS))
    requests, conductor = PassRequests(place.tables), place.conductor(interval_seconds=1000)
    waits, dry = requests.submit(now=ONE), requests.submit(dry_run=True, now=ONE + 1)
    switch(place).stop(now_ns=1)
    answered = conductor.run_once(ONE + 2)
    assert answered is not None and (answered.id, answered.status) == (dry, PassStatus.OK)
    assert conductor.run_once(ONE + 3) is None
    switch(place).resume(now_ns=2)
    begun = conductor.run_once(ONE + 4)
    assert begun is not None and begun.id == waits


def test_a_bucket_that_is_stopped_is_left_out_of_passes(place: LifecyclePlace, store: MemoryStore) -> None:
    place.bucket("photos", rule_set(DAYS))
    place.bucket("films", rule_set(DAYS))
    switch(place).stop("photos", now_ns=1)
    conductor = place.conductor(interval_seconds=10)
    report = conductor.run_once(ONE)
    assert report is not None and report.buckets == 1
    with pytest.raises(Refused, match="stopped in bucket photos"):
        conductor.start(order(ONE + 1, bucket="photos"), "listing")
    # Such a request holds up no other.
    pass_id = PassRequests(place.tables).submit("photos", now=ONE + 2)
    refused = conductor.run_once(ONE + 2)
    assert refused is not None and (refused.id, refused.status) == (pass_id, PassStatus.FAILED)


def test_a_pass_by_listing_that_was_stopped_says_so(place: LifecyclePlace, store: MemoryStore) -> None:
    place.bucket("photos", rule_set(DAYS))
    store.put("a", OLD)

    def stop_while_acting() -> None:
        while not backlog(place.topics):
            time.sleep(0.01)
        switch(place).stop(now_ns=1)

    stopping = Thread(target=stop_while_acting)
    stopping.start()
    report = place.conductor(interval_seconds=10).run_once(ONE)  # nobody carries its tasks out
    stopping.join()
    assert report is not None and report.status is PassStatus.INTERRUPTED
    assert "lifecycle was stopped" in report.problem
    assert CursorStore(place.tables).load(place.registry.bucket("photos").uid) == {}


def test_operators_are_told_why_no_pass_can_be_asked_for(
    place: LifecyclePlace, store: MemoryStore, tmp_path: Path
) -> None:
    place.bucket("photos", rule_set(DAYS))
    passes = PassInspector(place.tables, place.settings, tmp_path)
    control = LifecycleControl(place.tables, place.topics, place.settings)
    control.stop("photos")
    with pytest.raises(Conflict, match="resume --bucket photos"):
        passes.submit("photos")
    assert passes.submit("").id and passes.submit("photos", dry_run=True).id
    assert passes.current().refused == ""
    state = control.stop()
    assert state.stopped and state.stopped_since is not None
    assert [stop.bucket for stop in state.stopped_buckets] == ["photos"]
    with pytest.raises(Conflict, match="lifecycle is stopped"):
        passes.submit()
    assert "stopped" in passes.current().refused
    assert not control.resume().stopped
    assert control.resume("photos").stopped_buckets == []
    assert read_stops(place.tables).of == {}
