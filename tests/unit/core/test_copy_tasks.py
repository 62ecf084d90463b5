"""Messages of the data mover come back as they were sent, whatever is not told in them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tidegate.core.copy_tasks import COPY_ACTION, CopyResult, CopyStatus, CopyTask, action_of
from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC, ObjectTask

TASK = CopyTask(
    owner="owner", bucket="photos", key="a\n\u00fc:/", version_id="v1", bucket_uid="uid", location="cold",
    storage_class="GLACIER", results_topic="results", request_id="move", size=7, etag="e",
    last_modified="2020-01-01T00:00:00.000Z",
)  # fmt: skip
PLANNED = ObjectTask(
    effect=Effect.TRANSITION, owner="owner", bucket="photos", key="k", version_id="null", bucket_uid="uid",
    pass_id="pass", kind=ActionKind.TRANSITION_DAYS, rule_id="r", action_id="r/TransitionDays", due_ns=3_000_000_000,
    became_due_ns=4_000_000_000, created_ns=2_000_000_000, storage_class="GLACIER", size=0,
)  # fmt: skip


@pytest.mark.parametrize(
    "task",
    [
        TASK,
        replace(TASK, location="", storage_class="", back=True),
        replace(TASK, size=0, etag="", last_modified="", owner="", version_id=""),
        CopyTask.of(PLANNED),
    ],
)
def test_tasks_and_their_statuses_come_back_as_they_were_sent(task: CopyTask) -> None:
    assert CopyTask.from_bytes(task.to_bytes()) == task
    status = CopyStatus(task=task, result=CopyResult.COPIED, data_key="d", data_etag="x", etag="e", size=7)
    assert CopyStatus.from_bytes(status.to_bytes()) == status
    assert action_of(task.to_bytes()) == action_of(status.to_bytes()) == COPY_ACTION


def test_the_copy_of_a_transition_is_judged_by_the_time_in_the_log_where_the_store_s_is_not_known() -> None:
    task = CopyTask.of(PLANNED)
    assert (task.results_topic, task.request_id, task.object_task) == (OBJECT_TASKS_TOPIC, "pass", PLANNED)
    assert task.unmodified_since == "1970-01-01T00:00:03+00:00"
    assert CopyTask.of(replace(PLANNED, last_modified="2020-01-01T00:00:00Z")).unmodified_since == ""


def test_a_task_has_one_id_however_often_it_is_sent_and_another_task_has_another() -> None:
    assert TASK.id == CopyTask.from_bytes(TASK.to_bytes()).id
    assert TASK.id != replace(TASK, version_id="v2").id


def test_what_is_no_task_is_refused() -> None:
    for value in (b"", b"{}", b'{"action": "copyLocation", "target": {}}', b"[1]"):
        with pytest.raises(InvalidInput):
            CopyTask.from_bytes(value)
