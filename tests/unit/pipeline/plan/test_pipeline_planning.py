"""The plan of a pass as files: what it holds, what it tells of each bucket, and that idle passes cost nothing."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from lifecycle_cases import DAY, MIDNIGHT, abort, expiration, rule, rules, transition
from log_cases import Log
from msgspec.structs import replace

from tidegate.core.errors import Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.assess import BucketContext
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.shards import SHARDS, shard
from tidegate.pipeline.plan.actions import RuledBucket, ScopedAction
from tidegate.pipeline.plan.planning import BucketPlan, Replayed, Walked, last_changes, make_plan
from tidegate.pipeline.plan.task_publishing import read_plan
from tidegate.pipeline.walk.listing_source import WalkedBucket

NOW = MIDNIGHT + 3 * DAY
KEYS = ["plain", "a:b\nc", "😀/é", "x" * 1024]
# Nobody listens there.
NOWHERE = "http://127.0.0.1:9"


def put(uid, key, **fields):
    return Event(MIDNIGHT, EventKind.PUT, "p", "b", uid, "o", key, **{"size": 10, "etag": "e", **fields})


@pytest.fixture(scope="module")
def log(spark, tmp_path_factory):
    opened = Log(spark, tmp_path_factory.mktemp("log"))
    opened.append(*(put("plain", key) for key in KEYS), put("large", "moved", size=1 << 20))
    opened.append(*(put("versioned", key, version_id="v1") for key in KEYS))
    opened.append(replace(put("plain", "plain"), operation=EventKind.UPLOAD_STARTED, upload_id="u", ts_ns=MIDNIGHT + 1))
    opened.land()
    yield opened
    opened.close()


def bucket(uid, *actions, versioning=Versioning.OFF, scoped=None, complete=True):
    bucket_context = BucketContext(versioning)
    return RuledBucket(uid, rules(rule(*actions)), bucket_context, scoped, complete)


def place(uid):
    return WalkedBucket(uid, "b", "o", NOWHERE, "key", "secret")


def replayed(ruled, after_ns=NOW - 3 * DAY, shards=range(SHARDS)):
    return Replayed(ruled, dict.fromkeys(shards, after_ns), place(ruled.uid))


def planned(spark, log, folder, *, walked=(), replayed=()):
    return make_plan(spark, log.table, folder, now_ns=NOW, until_ns=NOW, walked=walked, replayed=replayed)


def keys_in(folder):
    return sorted(pq.read_table(folder).column("key").to_pylist())


def test_a_plan_is_written_as_files_and_counted_by_bucket_and_kind(spark, log, tmp_path):
    ruled = [bucket("plain", expiration(1), abort(1)), bucket("large", transition(1), expiration(9))]
    told = planned(spark, log, tmp_path / "plan", replayed=[replayed(one) for one in ruled])
    assert told == {
        "plain": BucketPlan({"ExpirationDays": len(KEYS), "AbortIncompleteMultipartUpload": 1}, bytes=10 * len(KEYS)),
        "large": BucketPlan({"TransitionDays": 1}, bytes=1 << 20),
    }
    plan = pq.read_table(tmp_path / "plan").to_pylist()
    assert sorted(row["key"] for row in plan) == sorted([*KEYS, "plain", "moved"])
    assert {row["key"]: row["effect"] for row in plan if row["bucket_uid"] == "large"} == {"moved": "transitionObject"}
    assert all(row["shard"] == shard("b", row["key"]) for row in plan)


def test_where_nothing_can_be_due_no_job_is_run_and_the_plan_is_empty(spark, log, tmp_path):
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
    before = len(jobs())
    idle = replayed(bucket("plain", expiration(1)), after_ns=NOW - 1)
    assert planned(spark, log, tmp_path / "plan", replayed=[idle]) == {"plain": BucketPlan()}
    assert planned(spark, log, tmp_path / "other") == {}
    assert read_plan(spark, tmp_path / "plan") is None
    assert len(jobs()) == before


def test_an_action_is_planned_in_its_shards_only(spark, log, tmp_path):
    chosen = KEYS[0]
    (pair,) = rules(rule(expiration(1))).active()
    scoped = (ScopedAction(pair, 1 << shard("b", chosen)),)
    planned(spark, log, tmp_path / "plan", replayed=[replayed(bucket("plain", expiration(1), scoped=scoped))])
    assert keys_in(tmp_path / "plan") == sorted(key for key in KEYS if shard("b", key) == shard("b", chosen))


def test_a_bucket_that_cannot_be_listed_has_a_problem_and_holds_up_no_other(spark, log, tmp_path):
    lost = bucket("versioned", expiration(1), versioning=Versioning.ENABLED, complete=False)
    walked = Walked(bucket("large", expiration(1)), place("large"))
    given = [replayed(bucket("plain", expiration(1))), replayed(lost), replayed(walked.bucket)]
    told = planned(spark, log, tmp_path / "plan", walked=[walked], replayed=given)
    assert told["plain"] == BucketPlan({"ExpirationDays": len(KEYS)}, bytes=10 * len(KEYS))
    assert told["versioned"].problem and not told["versioned"].planned
    # Its walk failed, and the log knows of one object that is due.
    assert told["large"].problem and told["large"].planned == {"ExpirationDays": 1}
    assert keys_in(tmp_path / "plan") == sorted([*KEYS, "moved"])
    assert not list((tmp_path / "plan").glob("_listed"))


def test_a_folder_that_is_there_already_is_refused(spark, log, tmp_path):
    with pytest.raises(Unavailable, match="cannot be used for a plan"):
        planned(spark, log, tmp_path)


def test_the_last_change_of_each_bucket_is_told(spark, log):
    uids = ["plain", "large", "unknown"]
    assert last_changes(spark, log.table, uids) == {"plain": MIDNIGHT + 1, "large": MIDNIGHT}
    assert last_changes(spark, log.table, uids, since_ns=MIDNIGHT + 1) == {"plain": MIDNIGHT + 1}
    assert last_changes(spark, log.table, uids, since_ns=NOW) == {}
