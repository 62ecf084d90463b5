"""Replay: what became due since the frontier, no more and no less, from the log table alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from history_cases import fold, version_of
from lifecycle_cases import DAY, MIDNIGHT, SECOND
from log_cases import Log
from plans import of_core, of_spark

from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.partition import partition
from tidegate.core.lifecycle.rules import RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.shards import shard
from tidegate.pipeline.actions import RuledBucket
from tidegate.pipeline.frontier import Frontier
from tidegate.pipeline.replay import Replayer

UNTIL = MIDNIGHT + 4 * DAY + 6 * 3600 * SECOND
FRONTIERS = (0, 1, 3600 * SECOND, DAY, 3 * DAY, 30 * DAY)


@pytest.fixture(scope="module")
def cases(ruled_histories):
    """(uid, key, events, rule set, terms, frontier)."""
    return [(*history, UNTIL - FRONTIERS[number % len(FRONTIERS)]) for number, history in enumerate(ruled_histories)]


@pytest.fixture(scope="module")
def log(spark, cases, tmp_path_factory):
    opened = Log(spark, tmp_path_factory.mktemp("log"))
    opened.append(*(event for _, _, events, *_ in cases for event in events))
    opened.land()
    yield opened
    opened.close()


def replayed_pairs(rule_set, terms):
    return partition(rule_set, day_seconds=terms.day_seconds).replay


def expected_plan(key, events, rule_set, terms, after_ns):
    """What the core plans for versions of which an action became due after the frontier."""
    pairs = replayed_pairs(rule_set, terms)
    only = replace(rule_set, rules=tuple(replace(pair.rule, actions=(pair.action,)) for pair in pairs))
    versions, uploads = fold(events)
    plan = decide(key, versions, uploads, only, terms, now_ns=UNTIL)
    new = set()
    for pair in only.rules:
        for entry in decide(key, versions, uploads, RuleSet((pair,), only.minimum), terms, now_ns=UNTIL):
            if entry.became_due_ns > after_ns:
                new.add((entry.version_id, entry.upload_id))
    return [entry for entry in plan if (entry.version_id, entry.upload_id) in new]


def frontier(uid, key, rule_set, terms, after_ns, **bucket):
    ruled = RuledBucket(uid, rule_set, terms, replayed_pairs(rule_set, terms), **bucket)
    return Frontier(ruled, {shard("b", key): after_ns})


def replayed(spark, log, frontiers):
    replay = Replayer(spark, log.table, until_ns=UNTIL).replay(frontiers)
    found = of_spark(replay.plan), {row.bucket_uid for row in replay.unsure.collect()}
    replay.release()
    return found


def test_the_replay_of_generated_histories_is_the_cores_plan_of_what_became_due(spark, log, cases):
    found, unsure = replayed(spark, log, [frontier(uid, key, *given) for uid, key, _, *given in cases])
    expected = []
    for uid, key, events, rule_set, terms, after_ns in cases:
        plan = expected_plan(key, events, rule_set, terms, after_ns)
        expected += of_core(uid, [version_of(entry, terms) for entry in plan])
    assert len(expected) > len(cases) / 10
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert unsure == set()


def test_keys_of_which_the_log_may_not_know_all_versions_are_named_and_not_planned(spark, log, cases):
    versioned = [case for case in cases if case[4].versioning is not Versioning.OFF]
    frontiers = [frontier(uid, key, *given, complete=False) for uid, key, _, *given in versioned]
    planned, unsure = replayed(spark, log, frontiers)
    due = {uid for uid, *given in versioned if any(not entry.upload_id for entry in expected_plan(*given))}
    assert due <= unsure
    assert {entry[0] for entry in planned if not entry[-2]} == set()


def test_shards_that_are_not_replayed_and_other_buckets_plan_nothing(spark, log, cases):
    elsewhere = [
        Frontier(RuledBucket(uid, rule_set, terms), {(shard("b", key) + 1) % 16: after_ns})
        for uid, key, _, rule_set, terms, after_ns in cases[:100]
    ]
    assert replayed(spark, log, elsewhere) == ([], set())


def test_without_frontiers_there_is_nothing_to_do(spark, log):
    assert replayed(spark, log, []) == ([], set())
