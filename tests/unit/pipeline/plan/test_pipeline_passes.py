"""Pass by pass: whatever is due and not done is planned, by replay or by walking, and nothing else ever is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from history_cases import HISTORIES
from log_cases import Log
from pass_cases import PASSES, lives
from plans import entries_of_spark, uploads_frame, versions_frame
from pyspark.sql import functions as F

from tidegate.core.lifecycle.cursors import Recovery, Walk
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import ListedUpload, ListedVersion
from tidegate.lifecycle.passes.listing_evaluator import ListingEvaluator
from tidegate.pipeline.plan.actions import actions_frame, most_newer
from tidegate.pipeline.plan.evaluate import evaluate
from tidegate.pipeline.plan.replay import Replayer
from tidegate.pipeline.plan.version_roles import of_uploads, placed


@pytest.fixture(scope="module")
def buckets():
    return lives(HISTORIES)


def planned_from_listings(spark, chosen, now_ns):
    """`chosen`: the buckets that are listed, each with its rules."""
    ruled = [bucket for _, bucket in chosen]
    versions = versions_frame(spark, [(life.uid, life.key, life.listed()[0]) for life, _ in chosen])
    uploads = uploads_frame(spark, [(life.uid, life.key, life.listed()[1]) for life, _ in chosen])
    subjects = placed(versions, [F.col("sequence")], most_newer=most_newer(ruled))
    return entries_of_spark(
        evaluate(subjects.unionByName(of_uploads(uploads)), actions_frame(spark, ruled, now_ns=now_ns))
    )


def planned_from_log(spark, log, buckets, now_ns):
    """The plan, and the buckets with a key of which the log is not sure."""
    frontiers = [frontier for life in buckets if (frontier := life.frontier())]
    replay = Replayer(spark, log.table, until_ns=now_ns).replay(frontiers)
    plan = [] if replay.plan is None else entries_of_spark(replay.plan)
    unsure = set() if replay.unsure is None else {row.bucket_uid for row in replay.unsure.collect()}
    replay.release()
    return plan, unsure


def identity(entry):
    return entry.version_id, entry.upload_id


def told(entry):
    """When an action became due is not known from listings."""
    return (entry.effect, entry.kind, entry.rule_id, entry.action_id, entry.key, *identity(entry), entry.due_ns)


def test_over_many_passes_exactly_what_is_due_is_planned(spark, buckets, tmp_path):
    log = Log(spark, tmp_path)
    seen = set()
    for number, now_ns in enumerate(PASSES):
        for life in buckets:
            life.write_until(now_ns, max(PASSES[:number], default=0))
            life.prepare(now_ns)
            seen |= {life.plan.walk, life.plan.recovery, life.plan.replays}
        log.append(*(event for life in buckets for event in life.new_events()))
        log.land()
        by_log, unsure = planned_from_log(spark, log, buckets, now_ns)
        listed = [(life, bucket) for life in buckets if (bucket := life.walked())]
        listed += [(life, life.frontier().bucket) for life in buckets if life.uid in unsure and not life.walked()]
        by_listing = planned_from_listings(spark, listed, now_ns)
        check_and_act(buckets, by_log, by_listing, now_ns)
    log.close()
    assert {Walk.STEADY, Walk.RECOVERY, Walk.REVISIT, Recovery.RULE_EDIT, Recovery.BEHIND_HORIZON, True} <= seen


def check_and_act(buckets, by_log, by_listing, now_ns):
    planned = {}
    for uid, entry in [*by_log, *by_listing]:
        planned.setdefault(uid, {})[identity(entry)] = entry
    for life in buckets:
        found, right = planned.get(life.uid, {}), life.oracle(now_ns)
        assert {told(entry) for entry in found.values()} <= {told(entry) for entry in right}, life.uid
        # What only a later event than this pass can know of made match is due in the next.
        due = [entry for entry in right if entry.became_due_ns <= now_ns and life.is_awaited(entry)]
        assert {identity(entry) for entry in due} <= set(found), (life.uid, life.plan)
        for entry in found.values():
            life.act(entry, now_ns)
        life.settle()


class Tags:
    """Of what a judge asks a store for, the tags of one key."""

    def __init__(self, versions):
        self._tags = {version.version_id: version.tags for version in versions}

    def tags(self, bucket, key, version_id):
        return self._tags[version_id or "null"]


def judged(life, now_ns):
    """What the listing engine plans for what the bucket holds."""
    versions, uploads = life.held()
    judge = ListingEvaluator(Tags(versions), "b", life.rules, life.bucket_context, locks=False, now_ns=now_ns)
    _, plan = judge.judge(life.key, [listed_version(life, *numbered) for numbered in enumerate(versions)])
    open_uploads = [ListedUpload(life.key, upload.upload_id, 0.0, text(upload.created_ns)) for upload in uploads]
    return [*plan, *judge.judge_uploads(life.key, open_uploads)]


def listed_version(life, position, version):
    return ListedVersion(
        key=life.key,
        version_id="" if life.writer.state is Versioning.OFF else version.version_id,
        is_latest=position == 0,
        is_marker=version.is_marker,
        last_modified=0.0,
        etag=version.etag,
        size=version.size,
        storage_class=version.storage_class,
        modified=text(version.created_ns),
    )


def text(ts_ns):
    return datetime.fromtimestamp(ts_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_listing_engine_plans_the_same_for_what_the_buckets_hold(buckets):
    now_ns = PASSES[-1]
    for life in buckets:
        assert sorted(map(told, judged(life, now_ns))) == sorted(map(told, life.oracle(now_ns))), life.uid
