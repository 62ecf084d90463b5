"""What a pass does in one bucket, shard by shard, and what follows from how that ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.core.lifecycle.cursors import (
    LISTED_LATE_NS,
    Clock,
    Cursor,
    ShardPlan,
    Walk,
    WalkResult,
    advanced,
    plan_shard,
)
from tidegate.core.lifecycle.due import SECOND_NS, day_length_ns
from tidegate.core.lifecycle.heartbeat import greatest_lag_ns
from tidegate.core.lifecycle.partition import Partition, partition
from tidegate.core.lifecycle.rules import RuleAction
from tidegate.core.shards import SHARDS
from tidegate.lifecycle.passes.pass_records import BucketReport
from tidegate.lifecycle.passes.snapshot import BucketSnapshot

ALL_SHARDS = frozenset(range(SHARDS))

Matters = Callable[[ShardPlan], bool]


@dataclass(frozen=True, slots=True)
class PassClock:
    """The times of a pass that hold for every bucket.

    Events may come `late_ns` after their time. `retention_ns` is how long the log is kept (0: for ever) and
    `allowance_ns` the time until the next pass. `walker_interval_ns` is the least time between two steady walks.
    """

    now_ns: int
    landed_ns: int
    late_ns: int
    log_horizon_ns: int
    retention_ns: int
    allowance_ns: int
    walker_interval_ns: int


@dataclass(frozen=True, slots=True)
class BucketOutcome:
    """How the actions in one bucket ended. `unsettled` has, by shard, when the first of those became due that could
    not be done. The shards in `revisited` are walked once more a day later: something there was locked, or is under
    way elsewhere."""

    outcomes: Mapping[str, int] = field(default_factory=dict)
    unsettled: Mapping[int, int] = field(default_factory=dict)
    revisited: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class BucketWork:
    snapshot: BucketSnapshot
    parts: Partition
    clock: Clock
    plans: tuple[ShardPlan, ...]

    @property
    def uid(self) -> str:
        return self.snapshot.uid

    @property
    def is_log_complete(self) -> bool:
        return self.clock.horizon_ns == 0

    @property
    def is_walked(self) -> bool:
        return any(plan.walk is not Walk.NONE for plan in self.plans)

    @property
    def is_replayed(self) -> bool:
        return any(plan.replays for plan in self.plans)

    @property
    def recoveries(self) -> dict[str, int]:
        return dict(Counter(plan.recovery.value for plan in self.plans if plan.recovery is not None))

    def after_ns(self) -> dict[int, int]:
        """By shard that is replayed."""
        return {shard: plan.after_ns for shard, plan in enumerate(self.plans) if plan.replays}

    def walked_for(self) -> dict[RuleAction, int]:
        """The actions to walk for, each with the shards, as bits of a number."""
        full, all_walks = self._shards(lambda plan: plan.walk.is_full), self._shards(lambda p: p.walk is not Walk.NONE)
        found = dict.fromkeys(self.parts.replay, full) | dict.fromkeys(self.parts.walk, all_walks)
        return {pair: shards for pair, shards in found.items() if shards}

    def replayed_for(self) -> dict[RuleAction, int]:
        shards = self._shards(lambda plan: plan.replays)
        return dict.fromkeys(self.parts.replay, shards) if shards else {}

    def _shards(self, matters: Matters) -> int:
        return sum(1 << shard for shard, plan in enumerate(self.plans) if matters(plan))

    def cursors_after(self, ending: BucketOutcome, *, is_stuck: bool) -> dict[int, Cursor]:
        """The cursors to write. A bucket that `is_stuck` could not be dealt with as a whole."""
        revisit_ns = self.clock.now_ns + day_length_ns(self.snapshot.terms.day_seconds)
        found = {}
        for shard, plan in enumerate(self.plans):
            first_ns = ending.unsettled.get(shard)
            is_blocked = is_stuck or first_ns is not None
            settled_ns = plan.until_ns if first_ns is None else max(first_ns - 1, plan.after_ns)
            moved = advanced(
                self.snapshot.cursors.get(shard),
                plan,
                self.parts,
                self.clock,
                bucket_uid=self.uid,
                shard=shard,
                walked=_walk_result(plan, is_blocked),
                settled_until_ns=plan.after_ns if is_stuck else settled_ns,
                revisit_ns=revisit_ns if shard in ending.revisited else 0,
            )
            if moved is not None:
                found[shard] = moved
        return found

    def report(self, cursors: Mapping[int, Cursor]) -> BucketReport:
        """What is known before anything was planned, and how far the bucket has come."""
        bucket = self.snapshot.bucket
        return BucketReport(
            bucket.name,
            bucket.uid,
            recoveries=self.recoveries,
            walked=self.is_walked,
            lag_seconds=lag_seconds(cursors, self.clock.now_ns),
        )


def lag_seconds(cursors: Mapping[int, Cursor], now_ns: int) -> float | None:
    """How far the slowest shard is behind; None while some shard was never finished."""
    if len(cursors) < SHARDS:
        return None
    lag_ns = greatest_lag_ns(cursors.values(), now_ns)
    return None if lag_ns is None else lag_ns / SECOND_NS


def work_in(snapshot: BucketSnapshot, times: PassClock, changed_ns: int | None = None) -> BucketWork:
    """`changed_ns` is when the bucket was last changed; None: that is not known."""
    horizon_ns = snapshot.horizon_ns(times.log_horizon_ns)
    clock = Clock(times.now_ns, times.landed_ns, horizon_ns, changed_ns)
    parts = partition(
        snapshot.rules,
        day_seconds=snapshot.terms.day_seconds,
        retention_ns=_retention_ns(times, clock),
        allowance_ns=times.allowance_ns + LISTED_LATE_NS,
    )
    plans = tuple(
        plan_shard(snapshot.cursors.get(shard), parts, clock, walker_interval_ns=times.walker_interval_ns)
        for shard in range(SHARDS)
    )
    return BucketWork(snapshot, parts, clock, plans)


def depends_on_changes(work: BucketWork, times: PassClock) -> bool:
    """Whether it makes a difference if the bucket was changed since its last walk."""
    return work.is_walked and work_in(work.snapshot, times, changed_ns=0).plans != work.plans


def _retention_ns(times: PassClock, clock: Clock) -> int | None:
    """How far back the log reaches for the bucket; None: to its creation, and it stays so."""
    limits = [times.retention_ns] if times.retention_ns else []
    if clock.horizon_ns:
        limits.append(max(clock.reach_ns - clock.horizon_ns, 0))
    return min(limits, default=None)


def _walk_result(plan: ShardPlan, is_blocked: bool) -> WalkResult:
    if plan.walk is Walk.NONE:
        return WalkResult.NONE
    return WalkResult.BLOCKED if is_blocked else WalkResult.DONE
