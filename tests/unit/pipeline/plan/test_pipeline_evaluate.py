"""The plan that Spark makes of versions and uploads is the plan of the core."""

from __future__ import annotations

import pytest
from history_cases import PRESENTS
from lifecycle_cases import situations
from plans import generated, of_core, of_spark, uploads_frame, versions_frame
from pyspark.sql import functions as F

from tidegate.core.lifecycle.decide import decide
from tidegate.pipeline.plan.actions import RuledBucket, actions_frame, most_newer
from tidegate.pipeline.plan.evaluate import evaluate
from tidegate.pipeline.plan.version_roles import of_uploads, placed

CASES = 2000
KEY = "k"


@pytest.fixture(scope="module")
def cases():
    """(uid, versions, uploads, rule set, bucket_context), each a bucket of its own."""
    return [
        (f"uid{number}", versions, uploads, rule_set, bucket_context)
        for number, (versions, uploads, rule_set, bucket_context, _) in enumerate(generated(situations(), CASES))
    ]


@pytest.mark.parametrize("now_ns", PRESENTS)
def test_the_plan_of_listed_versions_agrees_with_the_core(spark, cases, now_ns):
    buckets = [RuledBucket(uid, rule_set, bucket_context) for uid, _, _, rule_set, bucket_context in cases]
    versions = versions_frame(spark, [(uid, KEY, versions) for uid, versions, *_ in cases])
    uploads = uploads_frame(spark, [(uid, KEY, uploads) for uid, _, uploads, *_ in cases])
    subjects = placed(versions, [F.col("sequence")], most_newer=most_newer(buckets))
    plan = evaluate(subjects.unionByName(of_uploads(uploads)), actions_frame(spark, buckets, now_ns=now_ns))
    expected = [
        entry
        for uid, versions, uploads, rule_set, bucket_context in cases
        for entry in of_core(uid, decide(KEY, versions, uploads, rule_set, bucket_context, now_ns=now_ns))
    ]
    assert len(expected) > CASES / 4
    assert sorted(of_spark(plan), key=str) == sorted(expected, key=str)
