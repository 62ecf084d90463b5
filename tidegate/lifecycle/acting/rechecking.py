"""The last look before a request that deletes: which of its tasks may be carried out, as things stand now.

The bucket's rules are one read of the tables. Tags and newer versions are asked of the store, a few objects at a time,
and only where the rule depends on them; the rules are then read once more, so that nothing slow comes after. What is
still to be replicated is left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from tidegate.core.errors import NotFound
from tidegate.core.events import Pairs
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.recheck import Seen, StandingRules
from tidegate.core.lifecycle.rules import LIFECYCLE, RuleSet
from tidegate.core.lifecycle.tasks import ObjectTask, Outcome
from tidegate.core.listings import ListedVersion
from tidegate.core.xml import MOST_DELETES
from tidegate.lifecycle.acting.assignments import Result
from tidegate.lifecycle.acting.bucket_actions import sent_version
from tidegate.lifecycle.acting.replication_hold import ReplicationHold
from tidegate.ports import Store, Tables
from tidegate.walking import versions_of

# While tags are read nothing is deleted, and tags that change meanwhile are not seen: few at a time.
_MOST_LOOKED_AT = 50

_Asked = TypeVar("_Asked")
_Found = TypeVar("_Found")


class Lookers:
    """Threads that ask stores. Each thread that calls has its own: a store that does not answer holds up no other."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._local = threading.local()
        self._lock = threading.Lock()
        self._made: list[ThreadPoolExecutor] = []

    def map(self, look: Callable[[_Asked], _Found], asked: Iterable[_Asked]) -> list[_Found]:
        executor: ThreadPoolExecutor | None = getattr(self._local, "executor", None)
        if executor is None:
            executor = self._local.executor = ThreadPoolExecutor(self._threads, thread_name_prefix="lifecycle-look")
            with self._lock:
                self._made.append(executor)
        return list(executor.map(look, asked))

    def close(self) -> None:
        for executor in self._made:
            executor.shutdown(cancel_futures=True)


class BucketRecheck:
    """The `Recheck` of one bucket. `why_stopped` says why nothing may be done there (empty: it may); `lookers` ask the
    store in parallel. `hold_failed`: versions that could not be replicated are left alone, too."""

    def __init__(
        self,
        tables: Tables,
        store: Store,
        bucket: str,
        uid: str,
        *,
        day_seconds: float,
        now_ns: Callable[[], int],
        why_stopped: Callable[[], str],
        lookers: Lookers,
        hold_failed: bool = False,
    ) -> None:
        self._tables = tables
        self._store = store
        self._bucket = bucket
        self._uid = uid
        self._day_seconds = day_seconds
        self._now_ns = now_ns
        self._why_stopped = why_stopped
        self._lookers = lookers
        self._replication = ReplicationHold(tables, store, bucket, uid, hold_failed=hold_failed)

    def most(self, tasks: Sequence[ObjectTask]) -> int:
        rules = self._rules()
        asks = rules.looks_at_objects and any(rules.needs_tags(task) or rules.needs_newer(task) for task in tasks)
        return _MOST_LOOKED_AT if asks else MOST_DELETES

    def void(self, tasks: Sequence[ObjectTask]) -> dict[int, Result]:
        rules = self._rules()
        seen = self._seen(rules, tasks)
        held = self._held(tasks)
        if seen or held:
            rules = self._rules()
        now_ns = self._now_ns()
        stopped = self._why_stopped()
        if stopped:
            return dict.fromkeys(range(len(tasks)), Result(Outcome.STOPPED, stopped))
        reasons = {
            number: rules.why_stale(task, now_ns=now_ns, seen=seen.get(number, Seen()))
            for number, task in enumerate(tasks)
        }
        return {number: Result(Outcome.SKIPPED_REPLICATION, why) for number, why in held.items()} | {
            number: Result(Outcome.NOOP_RESOLVED, reason.value)
            for number, reason in reasons.items()
            if reason is not None
        }

    def _held(self, tasks: Sequence[ObjectTask]) -> dict[int, str]:
        """Those that are left alone until their versions have been replicated, and why."""
        rules = self._replication.rules()
        if rules is None:
            return {}
        reasons = {
            number: self._replication.why_held(
                rules,
                task.key,
                task.version_id,
                is_marker=task.effect is Effect.REMOVE_MARKER,
                created_ns=task.created_ns,
            )
            for number, task in enumerate(tasks)
            if task.effect is not Effect.ABORT_UPLOAD
        }
        return {number: why for number, why in reasons.items() if why}

    def _rules(self) -> StandingRules:
        return _standing(self._tables.get(LIFECYCLE + self._uid), self._day_seconds)

    def _seen(self, rules: StandingRules, tasks: Sequence[ObjectTask]) -> dict[int, Seen]:
        if not rules.looks_at_objects:
            return {}
        keys = sorted({task.key for task in tasks if rules.needs_newer(task)})
        listed = dict(zip(keys, self._lookers.map(self._listed, keys), strict=True))
        tagged = [number for number, task in enumerate(tasks) if rules.needs_tags(task)]
        tags = dict(zip(tagged, self._lookers.map(lambda number: self._tags(tasks[number]), tagged), strict=True))
        found = {}
        for number, task in enumerate(tasks):
            newer = _newer(task, listed[task.key]) if task.key in listed else None
            is_gone = (number in tags and tags[number] is None) or (task.key in listed and newer is None)
            found[number] = Seen(tags.get(number), newer, is_gone)
        return found

    def _tags(self, task: ObjectTask) -> Pairs | None:
        """None where the version is gone."""
        try:
            return self._store.tags(self._bucket, task.key, sent_version(task))
        except NotFound:
            return None

    def _listed(self, key: str) -> Sequence[ListedVersion]:
        return versions_of(self._store, self._bucket, key)


def _newer(task: ObjectTask, listed: Sequence[ListedVersion]) -> int | None:
    """How many noncurrent versions are newer; None where the version is gone."""
    places = (place for place, version in enumerate(listed) if version.version_id == task.version_id)
    place = next(places, None)
    return None if place is None else max(place - 1, 0)


@lru_cache(maxsize=512)
def _standing(text: str | None, day_seconds: float) -> StandingRules:
    """By the text itself: most of the time a bucket's rules are what they were a moment ago."""
    return StandingRules(RuleSet.from_json(text) if text is not None else None, day_seconds=day_seconds)
