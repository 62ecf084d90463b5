"""The messages between the roles: their JSON, and what lets a cursor move on."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_cases import DAY, MIDNIGHT, abort, plan, rule, rules, transition, version
from msgspec.structs import replace

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.subjects import Upload
from tidegate.core.lifecycle.tasks import (
    OBJECT_TASKS_TOPIC,
    AuditRecord,
    Ended,
    ObjectTask,
    Outcome,
    Stale,
)

OBJECT_TASK = ObjectTask(
    effect=Effect.DELETE,
    owner="alice",
    bucket="b",
    key="a:b/ü\n😀",
    version_id="v1",
    bucket_uid="u1",
    pass_id="pass-1",
    kind=ActionKind.NONCURRENT_DAYS,
    rule_id="r",
    action_id="r/NoncurrentDays",
    due_ns=MIDNIGHT,
    became_due_ns=MIDNIGHT + 1,
    since_ns=MIDNIGHT - 2,
    created_ns=MIDNIGHT - DAY,
    last_modified="2024-10-03T00:00:00.000Z",
    etag='"e"',
    size=0,
)
texts = st.text(max_size=8)


def test_topics_have_their_names():
    assert OBJECT_TASKS_TOPIC == "backbeat-lifecycle-object-tasks"


def test_an_object_task_has_the_published_shape_with_the_identity_and_the_reason():
    assert json.loads(OBJECT_TASK.to_bytes()) == {
        "action": "deleteObject",
        "target": {"owner": "alice", "bucket": "b", "key": "a:b/ü\n😀", "version": "v1"},
        "details": {
            "bucketUid": "u1",
            "passId": "pass-1",
            "kind": "NoncurrentDays",
            "ruleId": "r",
            "actionId": "r/NoncurrentDays",
            "dueAtNs": MIDNIGHT,
            "becameDueAtNs": MIDNIGHT + 1,
            "sinceNs": MIDNIGHT - 2,
            "createdAtNs": MIDNIGHT - DAY,
            "lastModified": "2024-10-03T00:00:00.000Z",
            "etag": '"e"',
            "size": 0,
        },
    }


@given(texts, texts, texts, st.none() | st.integers(0, 2**60), st.sampled_from(Effect), st.sampled_from(ActionKind))
def test_an_object_task_is_read_as_it_was_written(key, version_id, etag, size, effect, kind):
    task = replace(OBJECT_TASK, key=key, version_id=version_id, etag=etag, size=size, effect=effect, kind=kind)
    assert ObjectTask.from_bytes(task.to_bytes()) == task
    record = AuditRecord(5, task, Outcome.NOOP_RESOLVED, reason=key, worker=etag)
    assert AuditRecord.from_json(record.to_json()) == record
    identity = (effect, task.pass_id, task.bucket, task.bucket_uid, key)
    ended = Ended(*identity, task.became_due_ns, Outcome.NOOP_RESOLVED, key)
    assert Ended.from_json(record.to_json()) == ended


def test_a_planned_action_becomes_a_task_with_everything_it_says():
    given = rules(rule(transition(1), abort(1)))
    planned = plan(given, [version()], [Upload("u", MIDNIGHT)], now=MIDNIGHT + 9 * DAY)
    context = {"owner": "o", "bucket": "b", "bucket_uid": "u1", "pass_id": "p"}
    move, stop = (ObjectTask.of(entry, **context) for entry in planned)
    assert (move.effect, move.storage_class, move.version_id) == (Effect.TRANSITION, "GLACIER", "v1")
    assert (stop.effect, stop.upload_id, stop.version_id) == (Effect.ABORT_UPLOAD, "u", "")
    assert ObjectTask.from_bytes(move.to_bytes()) == move
    assert ObjectTask.from_bytes(stop.to_bytes()) == stop


def test_details_of_a_newer_version_are_ignored():
    message = json.loads(OBJECT_TASK.to_bytes())
    message["details"]["later"] = 1
    message["later"] = {}
    assert ObjectTask.from_bytes(json.dumps(message).encode()) == OBJECT_TASK


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"7", b"{}", b'{"action":"deleteObject","target":{},"details":{}}', b'{"target":[]}']
)
def test_what_is_no_task_is_refused(data):
    for read in (ObjectTask.from_bytes, AuditRecord.from_json, Ended.from_json):
        with pytest.raises(InvalidInput):
            read(data)


def test_only_settled_outcomes_let_a_cursor_move_on():
    assert {outcome for outcome in Outcome if outcome.is_settled} == {
        Outcome.DONE,
        Outcome.NOOP_RESOLVED,
        Outcome.SKIPPED_OBJECT_LOCK,
        Outcome.SKIPPED_REPLICATION,
    }


def test_what_is_held_is_settled_and_looked_for_again():
    held = {outcome for outcome in Outcome if outcome.is_held}
    assert held == {Outcome.SKIPPED_OBJECT_LOCK, Outcome.SKIPPED_REPLICATION}


@pytest.mark.parametrize("reason", Stale)
def test_a_task_that_no_longer_held_settles_nothing(reason):
    record = AuditRecord(5, OBJECT_TASK, Outcome.NOOP_RESOLVED, reason=reason.value)
    assert not Ended.from_json(record.to_json()).is_settled
    assert Ended.from_json(replace(record, reason="it is gone").to_json()).is_settled
