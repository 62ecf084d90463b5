"""Buckets that live through several passes: clients write, rules are edited, the clock is set, and workers act on what
was planned. Each is one history with one key; what it holds is known by the core's fold over all its events."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from history_cases import CHANGES, Writer, fold, version_of
from hypothesis import strategies as st
from lifecycle_cases import DAY, MIDNIGHT, SECOND, rule_sets
from plans import generated

from tidegate.core.events import EventKind
from tidegate.core.lifecycle.assess import BucketContext, Effect
from tidegate.core.lifecycle.cursors import Clock, Walk, WalkResult, advanced, plan_shard
from tidegate.core.lifecycle.decide import decide
from tidegate.core.lifecycle.partition import partition
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.shards import shard
from tidegate.pipeline.plan.actions import RuledBucket, ScopedAction
from tidegate.pipeline.plan.frontier import Frontier

HOUR = 3600 * SECOND
# Times of passes. The third comes after the clock was set back.
PASSES = (MIDNIGHT, MIDNIGHT + 7 * HOUR, MIDNIGHT + 3 * HOUR, MIDNIGHT + 2 * DAY - SECOND, MIDNIGHT + 5 * DAY)
# Of some histories the log has lost what is older.
LOST_BEFORE = MIDNIGHT - 2 * DAY
_FAILS, _EDITS, _LOSES = 0.15, 0.2, 0.3


class Life:
    """`log` are the events that the log table has; all of them are in the writer's."""

    def __init__(self, number, rule_sets, seed):
        self.random = Random(seed)
        self.uid, self.key = f"uid{number}", f"k{number}"
        self.writer = Writer(self.uid, self.key, self.random.choice, self.random.choice(list(Versioning)))
        self.writer.ts_ns -= 1
        self.rule_sets, self.rules = rule_sets, rule_sets[0]
        self.day_seconds = self.random.choice([86_400, 86_400, 43_200, 10])
        self.is_lost = self.random.random() < _LOSES
        self.shard = shard("b", self.key)
        self.cursor = None
        self.landed = 0
        self.handed_over = set()

    @property
    def bucket_context(self):
        return BucketContext(self.writer.state, day_seconds=self.day_seconds)

    def write_until(self, now_ns, since_ns):
        """What clients do before a pass, and after all passes before it, of which `since_ns` is the latest."""
        for _ in range(self.random.randint(0, 4)):
            later_ns = max(self.writer.ts_ns, since_ns) + self.random.choice([SECOND, HOUR, 9 * HOUR, DAY])
            self._set_clock(min(later_ns, max(now_ns - SECOND, since_ns)))
            self.random.choice(CHANGES)(self.writer)
        if self.random.random() < _EDITS:
            self.rules = self.random.choice(self.rule_sets)

    def _set_clock(self, ts_ns):
        """The last nanosecond of that second, as which listings are understood. A key's events rise in time, also when
        the clock was set back."""
        self.writer.ts_ns = max(ts_ns // SECOND * SECOND + SECOND - 1, self.writer.ts_ns + SECOND)

    def new_events(self):
        """Those that were not landed yet and are not lost."""
        fresh, self.landed = self.writer.events[self.landed :], len(self.writer.events)
        return [event for event in fresh if not (self.is_lost and event.ts_ns < LOST_BEFORE)]

    def prepare(self, now_ns):
        """Decides, as a pass does, how this bucket is looked at."""
        self.clock = Clock(now_ns, now_ns, LOST_BEFORE if self.is_lost else 0)
        self.parts = partition(self.rules, day_seconds=self.day_seconds)
        self.plan = plan_shard(self.cursor, self.parts, self.clock, walker_interval_ns=0)
        self.failed = []
        self.hands_over = False
        if self.plan.walk.is_full:
            self.handed_over.clear()

    def walked(self):
        if self.plan.walk is Walk.NONE:
            return None
        pairs = self.rules.active() if self.plan.walk.is_full else self.parts.walk
        return self._bucket((*pairs, *(self.parts.replay if self.plan.replays else ())))

    def frontier(self):
        if not self.plan.replays:
            return None
        return Frontier(self._bucket(self.parts.replay), {self.shard: self.plan.after_ns})

    def _bucket(self, pairs):
        scoped = tuple(ScopedAction(pair, 1 << self.shard) for pair in pairs)
        return RuledBucket(self.uid, self.rules, self.bucket_context, scoped, complete=not self.is_lost)

    def held(self):
        return fold(self.writer.events)

    def listed(self):
        """The versions as a listing tells them: without when they were tagged or moved."""
        versions, uploads = self.held()
        return [replace(version, tagged_ns=0, moved_ns=0) for version in versions], uploads

    def oracle(self, now_ns):
        plan = decide(self.key, *self.held(), self.rules, self.bucket_context, now_ns=now_ns)
        return [version_of(entry, self.bucket_context) for entry in plan]

    def act(self, entry, now_ns):
        """What a worker does with a task, or that it fails."""
        if entry.effect is Effect.TRANSITION:
            self._hand_over(entry, now_ns)
        elif self.random.random() < _FAILS:
            self.failed.append(entry.became_due_ns)
        else:
            self._act(entry, now_ns)

    def _hand_over(self, entry, now_ns):
        """No pass waits for a move, nor learns that it failed: the next full walk looks again."""
        self.hands_over = True
        self.handed_over.add((entry.version_id, entry.since_ns))
        there = {version.version_id for version in self.held()[0] if not version.is_marker}
        if self.random.random() >= _FAILS and (entry.version_id or "null") in there:
            self._set_clock(now_ns + SECOND)
            self.writer.note(EventKind.MOVED, version_id=entry.version_id, storage_class=entry.storage_class)

    def is_awaited(self, entry):
        """Whether this pass must plan what is due."""
        return (entry.version_id, entry.since_ns) not in self.handed_over

    def _act(self, entry, now_ns):
        self._set_clock(now_ns + SECOND)
        writer = self.writer
        if entry.effect is Effect.ABORT_UPLOAD:
            writer.uploads.remove(entry.upload_id)
            writer.note(EventKind.UPLOAD_ABORTED, upload_id=entry.upload_id)
        elif entry.effect is Effect.EXPIRE:
            writer.remove()
        else:
            writer.versions.remove(entry.version_id)
            writer.note(EventKind.DELETE, version_id=entry.version_id)

    def settle(self):
        walked = WalkResult.NONE
        if self.plan.walk is not Walk.NONE:
            walked = WalkResult.BLOCKED if self.failed else WalkResult.DONE
        settled_ns = max(min(self.failed) - 1, self.plan.after_ns) if self.failed else self.plan.until_ns
        self.cursor = advanced(
            self.cursor,
            self.plan,
            self.parts,
            self.clock,
            bucket_uid=self.uid,
            shard=self.shard,
            walked=walked,
            settled_until_ns=settled_ns,
            revisit_ns=self.clock.now_ns + int(self.day_seconds * SECOND) if self.hands_over else 0,
        )


def lives(count):
    found = generated(st.tuples(st.lists(rule_sets(), min_size=2, max_size=2), st.integers(0, 2**32)), count)
    return [Life(number, *case) for number, case in enumerate(found)]
