"""From events to a plan: Spark and the core agree on generated histories."""

from __future__ import annotations

import pytest
from history_cases import PRESENTS, fold, version_of
from plans import events_frame, of_core, of_spark
from pyspark.sql import functions as F

from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.pipeline.plan.actions import RuledBucket, actions_frame, most_newer
from tidegate.pipeline.plan.evaluate import evaluate
from tidegate.pipeline.plan.version_roles import of_uploads, placed
from tidegate.pipeline.plan.versions import uploads_of, versions_of


@pytest.mark.parametrize("now_ns", PRESENTS)
def test_the_plan_of_replayed_events_agrees_with_the_core(spark, ruled_histories, now_ns):
    buckets = [RuledBucket(uid, rule_set, bucket_context) for uid, _, _, rule_set, bucket_context in ruled_histories]
    # Each event twice: a log may hold an event more than once.
    frame = events_frame(spark, [event for _, _, events, _, _ in ruled_histories for event in events * 2]).cache()
    versions = placed(versions_of(frame), [F.col("created_ns").desc()], most_newer=most_newer(buckets))
    subjects = versions.unionByName(of_uploads(uploads_of(frame)))
    plan = of_spark(evaluate(subjects, actions_frame(spark, buckets, now_ns=now_ns)))
    frame.unpersist()
    expected = []
    for uid, key, events, rule_set, bucket_context in ruled_histories:
        found = decide(key, *fold(events), rule_set, bucket_context, now_ns=now_ns)
        expected += of_core(uid, [version_of(entry, bucket_context) for entry in found])
    assert {entry[2] for entry in expected} == {kind.value for kind in ActionKind}
    assert sorted(plan, key=str) == sorted(expected, key=str)
