"""A stop voids what is queued, by its place in its topic, also after it is over."""

from __future__ import annotations

import pytest

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.stops import EVERYTHING, Stops

QUEUED = {"tasks": [5, 0]}


def test_nothing_is_stopped_or_void_at_first():
    stops = Stops()
    assert not stops.everything and stops.why_stopped("u") == stops.why_void("u", "tasks", 0, 0) == ""


def test_a_stop_of_everything_holds_for_every_bucket_and_every_task():
    stops = Stops().stopped(EVERYTHING, "", 1)
    assert stops.everything and stops.number == 1
    assert stops.why_stopped("u") == stops.why_void("u", "tasks", 0, 99) == "lifecycle is stopped"
    assert stops.stopped(EVERYTHING, "", 2) is stops


def test_a_stop_of_a_bucket_holds_there_alone():
    stops = Stops().stopped("u", "photos", 1)
    assert not stops.everything and stops.number == 0
    assert "in this bucket" in stops.why_stopped("u") and stops.why_stopped("v") == ""


@pytest.mark.parametrize("scope", [EVERYTHING, "u"])
def test_what_was_queued_when_a_stop_ended_stays_void_and_what_comes_after_does_not(scope):
    stops = Stops().stopped(scope, "", 1).resumed(scope, 2, QUEUED)
    assert not stops.everything and stops.why_stopped("u") == ""
    assert stops.why_void("u", "tasks", 0, 4) == "it was queued before lifecycle was stopped"
    assert [stops.why_void("u", *place) for place in (("tasks", 0, 5), ("tasks", 1, 0), ("more", 0, 0))] == [""] * 3
    assert stops.why_void("u", "tasks", 7, 0) == ""  # a partition that was added since
    assert bool(stops.why_void("v", "tasks", 0, 4)) is (scope == EVERYTHING)
    again = stops.stopped(scope, "", 3)
    assert again.why_void("u", "tasks", 0, 4) == "it was queued before lifecycle was stopped"


def test_resuming_what_is_not_stopped_changes_nothing():
    assert Stops().resumed(EVERYTHING, 1, QUEUED) == Stops()


def test_a_pass_can_tell_that_there_was_a_stop_since_it_began():
    begun = Stops()
    over = begun.stopped(EVERYTHING, "", 1).resumed(EVERYTHING, 2, QUEUED)
    assert over.number != begun.number and begun.voided(1, QUEUED).number != begun.number


def test_what_is_queued_can_be_voided_without_a_stop():
    stops = Stops().voided(1, QUEUED)
    assert not stops.everything and stops.why_void("u", "tasks", 0, 4) and not stops.why_void("u", "tasks", 0, 5)
    stopped = Stops().stopped(EVERYTHING, "", 1).voided(2, QUEUED)
    assert stopped.everything


def test_stops_that_are_over_and_void_nothing_any_more_are_forgotten():
    stops = Stops().stopped("u", "photos", 1).resumed("u", 2, QUEUED).stopped("v", "films", 3)
    assert set(stops.without_past({"tasks": [4, 0]}).of) == {"u", "v"}
    assert set(stops.without_past({"tasks": [5, 0]}).of) == {"v"}


def test_they_are_read_as_they_were_written():
    stops = Stops().stopped("u", "photos", 1).voided(2, QUEUED)
    assert Stops.from_json(stops.to_json()) == stops
    for text in ("", "[]", "{}", '{"number":1,"of":{"":7}}', '{"number":1,"of":{"":{"later":1}}}'):
        with pytest.raises(InvalidInput):
            Stops.from_json(text)
