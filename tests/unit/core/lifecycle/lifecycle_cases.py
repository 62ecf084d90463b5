"""Rules and versions in few words, and strategies that generate them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tidegate.core.lifecycle.assess import SMALL_OBJECT_BYTES, BucketContext, Effect
from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.rules import STORAGE_CLASSES, Action, ActionKind, Filter, Rule, RuleSet, TransitionMinimum
from tidegate.core.lifecycle.subjects import Upload, Version, Versioning

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
# A midnight, so that round numbers of days are easy to read.
MIDNIGHT = 20_000 * DAY


def rule(*actions, id="r", enabled=True, **predicates):
    return Rule(id, enabled, Filter(**predicates), actions)


def rules(*given, minimum=TransitionMinimum.ALL_CLASSES):
    return RuleSet(given, minimum)


def expiration(days=None, date=None):
    kind = ActionKind.EXPIRATION_DAYS if date is None else ActionKind.EXPIRATION_DATE
    return Action(kind, days=days, date=date)


def noncurrent(days, newer=None):
    kind = ActionKind.NONCURRENT_DAYS if newer is None else ActionKind.NEWER_NONCURRENT_VERSIONS
    return Action(kind, days=days, newer=newer)


def transition(days=None, to="GLACIER", date=None):
    kind = ActionKind.TRANSITION_DAYS if date is None else ActionKind.TRANSITION_DATE
    return Action(kind, days=days, date=date, storage_class=to)


def noncurrent_transition(days, to="GLACIER", newer=None):
    return Action(ActionKind.NONCURRENT_TRANSITION_DAYS, days=days, newer=newer, storage_class=to)


def abort(days):
    return Action(ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD, days=days)


MARKER_CLEANUP = Action(ActionKind.EXPIRED_OBJECT_DELETE_MARKER)


def version(version_id="v1", created=MIDNIGHT, **fields):
    return Version(version_id, created, **{"size": 1 << 20, **fields})


def marker(version_id="m1", created=MIDNIGHT, **fields):
    return Version(version_id, created, is_marker=True, **fields)


def plan(rule_set, versions=(), uploads=(), *, now, key="k", **bucket_context):
    return decide(key, versions, uploads, rule_set, BucketContext(**bucket_context), now_ns=now)


def brief(planned):
    """Effect, version and rule of each action that is taken."""
    return [(entry.effect, entry.version_id, entry.rule_id) for entry in planned if entry.hold is None]


def applied(versions, planned, bucket_context, now):
    """The versions after the store did what was planned, once."""
    left = list(versions)
    for entry in planned:
        if entry.hold is not None:
            continue
        position = next(place for place, found in enumerate(left) if found.version_id == entry.version_id)
        if entry.effect in (Effect.DELETE, Effect.REMOVE_MARKER):
            del left[position]
        elif entry.effect is Effect.TRANSITION:
            left[position] = replace(left[position], storage_class=entry.storage_class)
        elif entry.effect is Effect.EXPIRE and bucket_context.versioning is Versioning.SUSPENDED:
            left = [Version("null", now, is_marker=True), *(found for found in left if not found.is_null)]
        elif entry.effect is Effect.EXPIRE:
            left.insert(0, Version(f"m{now}", now, is_marker=True))
    return left


days = st.integers(0, 4)
positive_days = st.integers(1, 4)
classes = st.sampled_from(STORAGE_CLASSES)
dates = st.integers(19_998, 20_006).map(lambda day: day * 86_400)
tags = st.sampled_from([(("a", "1"),), (), (("a", "1"), ("b", "1")), (("a", "2"),)])
sizes = st.sampled_from([0, 1, SMALL_OBJECT_BYTES - 1, SMALL_OBJECT_BYTES, SMALL_OBJECT_BYTES + 1])

actions = st.one_of(
    positive_days.map(expiration),
    dates.map(lambda date: expiration(date=date)),
    st.just(MARKER_CLEANUP),
    st.builds(noncurrent, positive_days, st.none() | st.integers(1, 3)),
    positive_days.map(abort),
    st.builds(transition, days, classes),
    st.builds(transition, st.none(), classes, dates),
    st.builds(noncurrent_transition, days, classes, st.none() | st.integers(1, 3)),
)
# Most filters let most objects pass: a plan that is empty shows little.
filters = st.one_of(
    st.just(Filter()),
    st.sampled_from(["k", "", "x"]).map(lambda prefix: Filter(prefix=prefix)),
    st.sampled_from([(("a", "1"),), (("b", "1"),)]).map(lambda wanted: Filter(tags=wanted)),
    st.builds(Filter, size_greater_than=st.none() | sizes, size_less_than=st.none() | sizes),
)


@st.composite
def rule_sets(draw):
    given = draw(st.lists(st.tuples(filters, st.lists(actions, min_size=1, max_size=3)), min_size=1, max_size=4))
    disabled = draw(st.sampled_from([None, None, 0, 1]))
    return RuleSet(
        tuple(Rule(f"r{n}", n != disabled, where, tuple(what)) for n, (where, what) in enumerate(given)),
        draw(st.sampled_from(TransitionMinimum)),
    )


# Spread over a few days, with exact midnights and neighbours of midnights among them.
moments = st.builds(
    lambda day, offset: MIDNIGHT + day * DAY + offset,
    st.integers(-3, 3),
    st.sampled_from([0, 1, -1, 6 * 3600 * SECOND]),
)
# Before, at and after the time at which most of it is due.
presents = st.builds(lambda moment, days: moment + days * DAY, moments, st.integers(0, 6))


@st.composite
def histories(draw, versioning):
    """The versions of one key, newest first."""
    most = 1 if versioning is Versioning.OFF else 6
    times = sorted(draw(st.lists(moments, unique=True, min_size=1, max_size=most)), reverse=True)
    versions = []
    for number, created in enumerate(times):
        is_marker = versioning is not Versioning.OFF and draw(st.booleans())
        versions.append(
            Version(
                "" if versioning is Versioning.OFF else f"v{number}",
                created,
                size=0 if is_marker else draw(sizes),
                tags=() if is_marker else draw(tags),
                storage_class=draw(st.sampled_from(["", "STANDARD", *STORAGE_CLASSES])),
                is_marker=is_marker,
                legal_hold=draw(st.integers(0, 4)) == 0 and not is_marker,
                retained_until_ns=draw(st.none() | moments) if not is_marker else None,
                replication_pending=draw(st.integers(0, 6)) == 0,
                tagged_ns=draw(st.just(0) | moments),
                moved_ns=draw(st.just(0) | moments),
            )
        )
    if versions and versioning is not Versioning.OFF and draw(st.booleans()):
        position = draw(st.integers(0, len(versions) - 1))
        versions[position] = replace(versions[position], version_id="null")
    return versions


uploads = st.lists(moments, unique=True, max_size=2).map(
    lambda times: [Upload(f"u{number}", created) for number, created in enumerate(times)]
)


@st.composite
def situations(draw):
    """Versions, uploads, rules, terms and a moment."""
    versioning = draw(st.sampled_from(Versioning))
    bucket_context = BucketContext(
        versioning,
        day_seconds=draw(st.sampled_from([86_400, 10, 0.5])),
        minimum_transition_bytes=draw(st.sampled_from([0, SMALL_OBJECT_BYTES])),
        classes=draw(st.sampled_from([STORAGE_CLASSES, STORAGE_CLASSES, ("STANDARD_IA", "GLACIER")])),
        keeps_null_markers=draw(st.booleans()),
    )
    return draw(histories(versioning)), draw(uploads), draw(rule_sets()), bucket_context, draw(presents)
