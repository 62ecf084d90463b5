"""What a pass learns from the audit trail about its own actions."""

from __future__ import annotations

from lifecycle_place import LifecyclePlace

from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, AuditRecord, ObjectTask, Outcome
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.passes.outcomes import OutcomeTracker
from tidegate.ports import Record


def ended(effect: Effect, outcome: Outcome, pass_id: str = "pass") -> Record:
    task = ObjectTask(
        effect=effect,
        owner="o",
        bucket="b",
        key="k",
        version_id="",
        bucket_uid="uid",
        pass_id=pass_id,
        kind=ActionKind.EXPIRATION_DAYS,
        rule_id="r",
        action_id="r/ExpirationDays",
        due_ns=1,
        became_due_ns=1,
    )
    return Record("k", AuditRecord(1, task, outcome).to_json().encode())


def test_moves_that_end_within_the_pass_do_not_count_among_what_it_waits_for(place: LifecyclePlace) -> None:
    tracker = OutcomeTracker(place.topics, "pass", AuditTrail(place.topics).ends())
    records = [ended(Effect.DELETE, Outcome.DONE), ended(Effect.DELETE, Outcome.DONE, "another")]
    moves = [ended(Effect.TRANSITION, Outcome.DONE), ended(Effect.TRANSITION, Outcome.BLOCKED)]
    place.topics.append(AUDIT_TOPIC, [*records, *moves])
    assert tracker.catch_up() == 1
    outcome = tracker.of("uid")
    assert (outcome.outcomes, outcome.unsettled) == ({"DONE": 1}, {})
