"""The walker on Spark against the real store: each version and upload once, tags only where a rule needs them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from tidegate.core.lifecycle.assess import BucketContext, Effect
from tidegate.core.lifecycle.rules import Action, ActionKind, Filter, Rule, RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.pipeline.plan.actions import RuledBucket, actions_frame
from tidegate.pipeline.plan.evaluate import evaluate
from tidegate.pipeline.plan.version_roles import of_uploads, placed
from tidegate.pipeline.walk.listing_source import WalkedBucket, listed_uploads, listed_versions, newest_first
from tidegate.pipeline.walk.tag_needs import tag_needs

KEYS = ["a", "a-1", "a/1", "a/2", "b/x/1", "b/x/2", "c:d", "é/😀", "sp ace/+", *(f"many/{n:03}" for n in range(40))]
TAGGED = Filter(prefix="a", tags=(("keep", "no"),))
RULES = RuleSet(
    (
        Rule("tagged", True, TAGGED, (Action(ActionKind.EXPIRATION_DAYS, days=1),)),
        Rule("old", True, Filter(), (Action(ActionKind.NONCURRENT_DAYS, days=1),)),
        Rule("uploads", True, Filter(), (Action(ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD, days=1),)),
    )
)
BUCKET_CONTEXT = BucketContext(Versioning.ENABLED, day_seconds=1)


@pytest.fixture(scope="module")
def bucket(spark, service):
    """A versioned bucket: two versions of each key, one key tagged, one behind a marker, one open upload."""
    key = service.create_pool("spark-listing")
    client = service.s3(key)
    client.create_bucket(Bucket="spark-walked")
    client.put_bucket_versioning(Bucket="spark-walked", VersioningConfiguration={"Status": "Enabled"})
    for name in KEYS:
        for body in (b"1", b"22"):
            client.put_object(Bucket="spark-walked", Key=name, Body=body, Tagging="keep=no" if name == "a/1" else "")
    client.delete_object(Bucket="spark-walked", Key="b/x/1")
    client.create_multipart_upload(Bucket="spark-walked", Key="b/up")
    walked = WalkedBucket("uid", "spark-walked", "owner", service.s3_url, key.access_key, key.secret_key)
    return walked, client


def test_every_version_is_listed_once_as_the_store_shows_it(spark, bucket):
    walked, client = bucket
    rows = listed_versions(spark, [walked]).collect()
    pages = list(client.get_paginator("list_object_versions").paginate(Bucket=walked.name, MaxKeys=1000))
    expected = [
        (entry["Key"], entry["VersionId"], entry["IsLatest"], entry.get("ETag", "").strip('"'), "ETag" not in entry)
        for page in pages
        for entry in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
    ]
    found = [(row.key, row.version_id, row.is_latest, row.etag, row.is_marker) for row in rows]
    assert sorted(found) == sorted(expected)
    assert {row.key for row in rows} == set(KEYS)
    assert all(row.resolved for row in rows)
    assert {(row.bucket_uid, row.bucket, row.owner) for row in rows} == {("uid", "spark-walked", "owner")}


BESIDE_EACH_OTHER = [f"log-{n:04}{end}" for n in range(175) for end in ("", ".gz", "-old", "/x")]
IN_FOLDERS = [f"{folder}/{n:03}" for folder in ("x", "x-y", "x.z", "x/w", "y") for n in range(105)]


@pytest.mark.parametrize(("name", "names"), [("spark-flat", BESIDE_EACH_OTHER), ("spark-folders", IN_FOLDERS)])
def test_keys_are_read_in_parallel_ranges_none_lost_and_none_twice(spark, bucket, name, names):
    """More versions than a page shows; names sort around the slash and the dot, where SeaweedFS has another order than
    S3."""
    walked = replace(bucket[0], name=name)
    client = bucket[1]
    client.create_bucket(Bucket=name)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})

    def put_twice(key):
        return [(key, client.put_object(Bucket=name, Key=key, Body=body)["VersionId"]) for body in (b"", b"1")]

    with ThreadPoolExecutor(8) as pool:
        expected = [pair for pairs in pool.map(put_twice, names) for pair in pairs]
    frame = listed_versions(spark, [walked])
    rows = frame.collect()
    assert sorted((row.key, row.version_id) for row in rows) == sorted(expected)
    assert all(row.resolved for row in rows)
    assert frame.rdd.getNumPartitions() > 3


def test_only_the_given_prefix_is_listed(spark, bucket):
    walked, _ = bucket
    only = replace(walked, prefix="many/")
    assert {row.key for row in listed_versions(spark, [only]).collect()} == {key for key in KEYS if key[:5] == "many/"}


def test_open_uploads_are_listed(spark, bucket):
    assert [row.key for row in listed_uploads(spark, [bucket[0]]).collect()] == ["b/up"]


def test_a_bucket_that_cannot_be_listed_is_one_row_with_its_problem_and_stops_no_other(spark, bucket):
    walked, _ = bucket
    gone = replace(walked, uid="gone", name="spark-no-such-bucket")
    foreign = replace(walked, uid="foreign", secret="x" * len(walked.secret))
    silent = replace(walked, uid="silent", url="http://127.0.0.1:9")
    for listed in (listed_versions, listed_uploads):
        rows = listed(spark, [gone, walked, foreign, silent]).collect()
        problems = {row.bucket_uid: row for row in rows if row.problem is not None}
        assert set(problems) == {"gone", "foreign", "silent"}
        assert all(row.key is None and row.resolved is False for row in problems.values())
        assert "NoSuchBucket" in problems["gone"].problem
        assert "SignatureDoesNotMatch" in problems["foreign"].problem
        assert "does not answer" in problems["silent"].problem
        others = [row for row in rows if row.problem is None]
        assert len(others) == listed(spark, [walked]).count()
        assert {row.bucket_uid for row in others} == {"uid"}


def test_the_secret_is_in_no_plan_of_spark_and_in_no_problem(spark, bucket, capfd):
    walked = replace(bucket[0], name="spark-no-such-bucket")
    frame = listed_versions(spark, [walked])
    frame.explain("formatted")
    frame.explain(True)
    shown = capfd.readouterr().out + repr(walked) + str(frame.collect())
    assert "tidegate-listing" in shown
    assert walked.secret not in shown


def test_the_plan_of_a_walk_has_what_is_due_and_knows_tags_where_a_rule_asks_for_them(spark, bucket):
    walked, client = bucket
    now_ns = time.time_ns() + 10 * 10**9
    ruled = RuledBucket("uid", RULES, BUCKET_CONTEXT)
    needs = tag_needs(RULES.active(), day_seconds=BUCKET_CONTEXT.day_seconds, now_ns=now_ns)
    tagging = replace(walked, tag_needs=needs)
    versions = listed_versions(spark, [tagging]).where(F.col("resolved"))
    subjects = placed(versions, newest_first(), most_newer=0)
    subjects = subjects.unionByName(of_uploads(listed_uploads(spark, [tagging])))
    plan = evaluate(subjects, actions_frame(spark, [ruled], now_ns=now_ns)).collect()
    done = {(row.effect, row.key) for row in plan}
    assert {key for effect, key in done if effect == Effect.EXPIRE} == {"a/1"}
    assert {key for effect, key in done if effect == Effect.ABORT_UPLOAD} == {"b/up"}
    assert {key for effect, key in done if effect == Effect.DELETE} == set(KEYS)
    for row in plan:
        if row.effect == Effect.DELETE:
            listed = client.head_object(Bucket=walked.name, Key=row.key, VersionId=row.version_id)
            assert (row.etag, row.size) == (listed["ETag"].strip('"'), listed["ContentLength"])
