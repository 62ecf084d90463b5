"""Replay: what became due since the frontier, no more and no less, from the log table alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from history_cases import fold, version_of
from lifecycle_cases import DAY, MIDNIGHT, SECOND
from log_cases import Log
from msgspec.structs import replace as amended
from plans import of_core, of_spark

from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.assess import BucketContext
from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.partition import partition
from tidegate.core.lifecycle.rules import Action, ActionKind, Filter, Rule, RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.shards import shard
from tidegate.pipeline.plan import replay as replaying
from tidegate.pipeline.plan.actions import RuledBucket, ScopedAction
from tidegate.pipeline.plan.frontier import Frontier
from tidegate.pipeline.plan.replay import Replayer

UNTIL = MIDNIGHT + 4 * DAY + 6 * 3600 * SECOND
# Long ago often enough that something became due since then.
FRONTIERS = (1, 3600 * SECOND, DAY // 2, DAY, 2 * DAY, 3 * DAY, 7 * DAY, 30 * DAY, 60 * DAY)


@pytest.fixture(scope="module")
def cases(ruled_histories):
    """(uid, key, events, rule set, context, frontier). Every other history, and one that would end in
    the future, is moved by whole days to end just now."""
    found = []
    for number, (uid, key, events, rule_set, bucket_context) in enumerate(ruled_histories):
        last_ns = max((event.ts_ns for event in events), default=UNTIL)
        days = (UNTIL - last_ns) // DAY if number % 2 or last_ns > UNTIL else 0
        moved = tuple(amended(event, ts_ns=event.ts_ns + days * DAY) for event in events)
        found.append((uid, key, moved, rule_set, bucket_context, UNTIL - FRONTIERS[number // 2 % len(FRONTIERS)]))
    return found


@pytest.fixture(scope="module")
def log(spark, cases, tmp_path_factory):
    opened = Log(spark, tmp_path_factory.mktemp("log"))
    opened.append(*(event for _, _, events, *_ in cases for event in events))
    opened.land()
    yield opened
    opened.close()


def replayed_pairs(rule_set, bucket_context):
    return partition(rule_set, day_seconds=bucket_context.day_seconds).replay


def expected_plan(key, events, rule_set, bucket_context, after_ns):
    """What the core plans, by all rules, for versions of which a replayed action became due after the frontier."""
    versions, uploads = fold(events)
    plan = decide(key, versions, uploads, rule_set, bucket_context, now_ns=UNTIL)
    new = set()
    for pair in replayed_pairs(rule_set, bucket_context):
        only = RuleSet((replace(pair.rule, actions=(pair.action,)),), rule_set.minimum)
        for entry in decide(key, versions, uploads, only, bucket_context, now_ns=UNTIL):
            if entry.became_due_ns > after_ns:
                new.add((entry.version_id, entry.upload_id))
    return [entry for entry in plan if (entry.version_id, entry.upload_id) in new]


def frontier(uid, key, rule_set, bucket_context, after_ns, **bucket):
    ruled = RuledBucket(
        uid, rule_set, bucket_context, tuple(map(ScopedAction, replayed_pairs(rule_set, bucket_context))), **bucket
    )
    return Frontier(ruled, {shard("b", key): after_ns})


def replayed(spark, log, frontiers):
    replay = Replayer(spark, log.table, until_ns=UNTIL).replay(frontiers)
    planned = [] if replay.plan is None else of_spark(replay.plan)
    found = planned, set() if replay.unsure is None else {row.bucket_uid for row in replay.unsure.collect()}
    replay.release()
    return found


@pytest.mark.parametrize("most", [0, 25_000])
def test_the_replay_of_generated_histories_is_the_cores_plan_of_what_became_due(spark, log, cases, monkeypatch, most):
    """By one task, and by several that exchange what they read."""
    monkeypatch.setattr(replaying, "_MOST_OF_ONE_TASK", most)
    monkeypatch.setattr(replaying, "_MOST_TO_SEND", most)
    found, unsure = replayed(spark, log, [frontier(uid, key, *given) for uid, key, _, *given in cases])
    expected = []
    for uid, key, events, rule_set, bucket_context, after_ns in cases:
        plan = expected_plan(key, events, rule_set, bucket_context, after_ns)
        expected += of_core(uid, [version_of(entry, bucket_context) for entry in plan])
    assert len(expected) > len(cases) / 10
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert unsure == set()


OLD, RECENT = UNTIL - 3 * DAY, UNTIL - 60 * SECOND


def put(ts_ns, version_id, **fields):
    return Event(ts_ns, EventKind.PUT, "p", "b", "uid", "o", version_id=version_id, size=1, **fields)


def late(operation, version_id, **fields):
    return Event(RECENT, operation, "p", "b", "uid", "o", version_id=version_id, **fields)


EXPIRE = Action(ActionKind.EXPIRATION_DAYS, days=1)
NONCURRENT = Action(ActionKind.NONCURRENT_DAYS, days=1)
TAGS = (("a", "1"),)
# Of each, the version was old enough long before; only the last event made the rule match.
LATE = {
    "a tag set late": (
        [put(OLD, ""), late(EventKind.TAGGING, "", tags=TAGS)],
        Rule("r", True, Filter(tags=TAGS), (EXPIRE,)),
        Versioning.OFF,
    ),
    "current again": (
        [put(OLD, "v1"), put(OLD + 1, "v2"), late(EventKind.DELETE, "v2")],
        Rule("r", True, Filter(), (EXPIRE,)),
        Versioning.ENABLED,
    ),
    "a marker left alone": (
        [put(OLD, "v1"), amended(late(EventKind.DELETE_MARKER, "m1"), ts_ns=OLD + 1), late(EventKind.DELETE, "v1")],
        Rule("r", True, Filter(), (EXPIRE,)),
        Versioning.ENABLED,
    ),
    "an earlier successor": (
        [put(OLD, "v1"), put(OLD + 1, "null"), put(OLD + 2, "v2"), late(EventKind.PUT, "null", size=1)],
        Rule("r", True, Filter(), (NONCURRENT,)),
        Versioning.SUSPENDED,
    ),
}


def test_what_an_event_made_match_late_is_found_though_its_days_were_over_long_before(spark, tmp_path):
    log = Log(spark, tmp_path)
    contexts = {name: BucketContext(versioning, day_seconds=43_200) for name, (_, _, versioning) in LATE.items()}
    expected, frontiers = [], []
    for name, (events, rule, _) in LATE.items():
        named = [amended(event, bucket_uid=name, key=name) for event in events]
        log.append(*named)
        given = (RuleSet((rule,)), contexts[name], RECENT - 1)
        frontiers.append(frontier(name, name, *given))
        plan = expected_plan(name, named, *given)
        assert RECENT in [entry.became_due_ns for entry in plan], name
        expected += of_core(name, [version_of(entry, contexts[name]) for entry in plan])
    log.land()
    found, _ = replayed(spark, log, frontiers)
    log.close()
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("versioning", Versioning)
def test_a_moved_version_is_judged_by_its_time_and_by_the_class_that_it_is_in(spark, tmp_path, versioning):
    """Whether its move is the last event of its key or an older one, and whatever was moved before it was written."""
    log, version_id = Log(spark, tmp_path), "" if versioning is Versioning.OFF else "null"
    context = BucketContext(versioning, day_seconds=43_200, minimum_transition_bytes=0)
    moves = [Action(ActionKind.TRANSITION_DAYS, days=5, storage_class=name) for name in ("STANDARD_IA", "GLACIER")]
    rule_sets = {
        "move": RuleSet((Rule("r", True, Filter(), tuple(moves)),)),
        "end": RuleSet((Rule("r", True, Filter(), (EXPIRE,)),)),
    }
    histories = {
        "unmoved": [put(OLD, version_id)],
        "moved": [put(OLD, version_id), late(EventKind.MOVED, version_id, storage_class="STANDARD_IA")],
        "cold": [put(OLD, version_id), late(EventKind.MOVED, "", storage_class="GLACIER")],
        "written again": [
            put(OLD - 2, version_id),
            amended(late(EventKind.MOVED, version_id, storage_class="GLACIER"), ts_ns=OLD - 1),
            put(OLD, version_id),
        ],
        "moved back": [
            put(OLD, version_id),
            amended(late(EventKind.MOVED, version_id, storage_class="GLACIER"), ts_ns=OLD + 1),
            late(EventKind.MOVED, version_id, storage_class="STANDARD"),
        ],
    }
    expected, frontiers = [], []
    for name, rule_set in rule_sets.items():
        for key, events in histories.items():
            uid = f"{name} {key}"
            named = [amended(event, bucket_uid=uid, key=key) for event in events]
            log.append(*named)
            frontiers.append(frontier(uid, key, rule_set, context, OLD))
            plan = expected_plan(key, named, rule_set, context, OLD)
            expected += of_core(uid, [version_of(entry, context) for entry in plan])
    log.land()
    found, _ = replayed(spark, log, frontiers)
    log.close()
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert {entry[0] for entry in found} == {f"{name} {key}" for name in rule_sets for key in histories} - {"move cold"}


def test_keys_of_which_the_log_may_not_know_all_versions_are_named_and_not_planned(spark, log, cases):
    versioned = [case for case in cases if case[4].versioning is not Versioning.OFF]
    frontiers = [frontier(uid, key, *given, complete=False) for uid, key, _, *given in versioned]
    planned, unsure = replayed(spark, log, frontiers)
    due = {uid for uid, *given in versioned if any(not entry.upload_id for entry in expected_plan(*given))}
    assert due <= unsure
    assert {entry[0] for entry in planned if not entry[-2]} == set()


def test_shards_that_are_not_replayed_and_other_buckets_plan_nothing(spark, log, cases):
    elsewhere = [
        Frontier(RuledBucket(uid, rule_set, bucket_context), {(shard("b", key) + 1) % 16: after_ns})
        for uid, key, _, rule_set, bucket_context, after_ns in cases[:100]
    ]
    assert replayed(spark, log, elsewhere) == ([], set())


def test_without_frontiers_there_is_nothing_to_do(spark, log):
    assert replayed(spark, log, []) == ([], set())
