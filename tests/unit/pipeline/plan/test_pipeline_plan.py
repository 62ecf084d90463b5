"""The plan as tasks: what executors write is what the workers read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from log_cases import MIDNIGHT
from plans import uploads_frame, versions_frame

from tidegate import assembly
from tidegate.core.copy_tasks import CopyTask
from tidegate.core.lifecycle.assess import BucketContext, Effect
from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.routes import DATA_MOVER_TOPIC, TASK_TOPICS
from tidegate.core.lifecycle.rules import Action, ActionKind, Filter, Rule, RuleSet
from tidegate.core.lifecycle.subjects import Upload, Version, Versioning
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC, ObjectTask
from tidegate.pipeline.plan import task_publishing, version_roles
from tidegate.pipeline.plan.actions import RuledBucket, actions_frame
from tidegate.pipeline.plan.evaluate import evaluate
from tidegate.pipeline.plan.handed_over import HandedOver
from tidegate.pipeline.plan.task_publishing import publish_plan, tasks
from tidegate.settings import Settings

RULES = RuleSet(
    (
        Rule("rule é/1", True, Filter(), (Action(ActionKind.EXPIRATION_DAYS, days=1),)),
        Rule("uploads", True, Filter(), (Action(ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD, days=1),)),
    )
)
BUCKET_CONTEXT = BucketContext(Versioning.ENABLED, day_seconds=10)
KEYS = ["plain", "a:b\nc", "😀/é", '"\\', "x" * 1024]
NOW = MIDNIGHT + 11 * 10**9
VERSION = Version("v1", MIDNIGHT, size=0, etag="e1")
HELD = Version("v2", MIDNIGHT, size=5, replication_pending=True)
UPLOAD = Upload("up/1", MIDNIGHT)


@pytest.fixture
def plan(spark):
    versions = [("uid", key, [VERSION]) for key in KEYS] + [("uid", "held", [HELD])]
    subjects = version_roles.alone(versions_frame(spark, versions).drop("sequence"))
    subjects = subjects.unionByName(version_roles.of_uploads(uploads_frame(spark, [("uid", "up", [UPLOAD])])))
    return evaluate(subjects, actions_frame(spark, [RuledBucket("uid", RULES, BUCKET_CONTEXT)], now_ns=NOW))


def expected():
    common = {"owner": "o", "bucket": "b", "bucket_uid": "uid", "pass_id": "pass-1"}
    of_versions = [
        ObjectTask.of(planned, **common, created_ns=VERSION.created_ns, etag="e1", size=0)
        for key in KEYS
        for planned in decide(key, [VERSION], [], RULES, BUCKET_CONTEXT, now_ns=NOW)
    ]
    of_uploads = [
        ObjectTask.of(planned, **common, created_ns=UPLOAD.created_ns)
        for planned in decide("up", [], [UPLOAD], RULES, BUCKET_CONTEXT, now_ns=NOW)
    ]
    return of_versions + of_uploads


def test_messages_read_back_as_the_tasks_of_the_core(plan):
    rows = tasks(plan, pass_id="pass-1").collect()
    found = [ObjectTask.from_bytes(row.value.encode()) for row in rows]
    assert sorted(found, key=repr) == sorted(expected(), key=repr)
    assert {row.key for row in rows} == {f"uid/{task.key}" for task in expected()}


def test_what_is_held_is_in_the_plan_and_is_no_task(plan):
    assert [row.hold for row in plan.collect() if row.key == "held"] == ["replication-pending"]
    assert all("held" not in row.key for row in tasks(plan, pass_id="p").collect())


@pytest.mark.parametrize("rows_of_one_task", [0, 1000])
def test_executors_append_every_task_once_and_count_per_bucket(spark, plan, tmp_path, monkeypatch, rows_of_one_task):
    """By one task, and by several."""
    monkeypatch.setattr(task_publishing, "_ROWS_OF_ONE_TASK", rows_of_one_task)
    settings = Settings()
    topics = assembly.open_topics(settings, tmp_path)
    for topic in TASK_TOPICS:
        topics.create(topic, 4)
    plan.write.parquet(str(tmp_path / "plan"))
    counts = publish_plan(spark, tmp_path / "plan", settings, tmp_path, pass_id="pass-1")
    assert (counts.awaited, counts.handed_over) == ({"uid": len(KEYS) + 1}, {})
    found = published(topics, OBJECT_TASKS_TOPIC)
    assert sorted(found, key=repr) == sorted(expected(), key=repr)
    assert {task.effect for task in found} == {Effect.EXPIRE, Effect.ABORT_UPLOAD}
    topics.close()


def test_what_takes_long_is_handed_over_by_the_executors_and_published_once(spark, tmp_path):
    settings = Settings()
    topics, tables = assembly.open_topics(settings, tmp_path), assembly.open_tables(settings, tmp_path)
    for topic in TASK_TOPICS:
        topics.create(topic, 4)
    moves = Action(ActionKind.TRANSITION_DAYS, days=1, storage_class="GLACIER")
    rules = RuleSet((Rule("r", True, Filter(), (moves,)),))
    bucket_context = replace(BUCKET_CONTEXT, minimum_transition_bytes=0)
    versions = versions_frame(spark, [("uid", key, [VERSION]) for key in KEYS]).drop("sequence")
    bucket = RuledBucket("uid", rules, bucket_context)
    plan = evaluate(version_roles.alone(versions), actions_frame(spark, [bucket], now_ns=NOW))
    plan.write.parquet(str(tmp_path / "plan"))
    for pass_id in ("pass-1", "pass-2"):
        counts = publish_plan(spark, tmp_path / "plan", settings, tmp_path, pass_id=pass_id)
        assert (counts.awaited, counts.handed_over) == ({}, {"uid": len(KEYS)})
    moved = published(topics, DATA_MOVER_TOPIC, CopyTask)
    assert sorted((task.key, task.request_id) for task in moved) == sorted((key, "pass-1") for key in KEYS)
    assert {entry.key for entry in HandedOver(tables).under_way("uid")} == set(KEYS)
    topics.close()
    tables.close()


def published(topics, topic, kind=ObjectTask):
    return [
        kind.from_bytes(message.value)
        for partition, (_, end) in enumerate(topics.bounds(topic))
        for message in topics.read(topic, partition, 0, end + 1)
    ]
