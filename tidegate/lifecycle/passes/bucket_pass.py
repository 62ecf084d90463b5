"""One bucket on its way through a pass: what is known of it, what is done in each shard, what is planned, and how that
ended. Each step gives a new value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from tidegate.core.lifecycle.assess import BucketContext
from tidegate.core.lifecycle.cursors import (
    LISTED_LATE_NS,
    Clock,
    Cursor,
    ShardPlan,
    Walk,
    WalkResult,
    advanced,
    plan_shard,
    whole_walk,
)
from tidegate.core.lifecycle.due import SECOND_NS, day_length_ns
from tidegate.core.lifecycle.heartbeat import greatest_lag_ns
from tidegate.core.lifecycle.partition import Partition, partition
from tidegate.core.lifecycle.rules import RuleAction, RuleSet
from tidegate.core.records import Bucket
from tidegate.core.shards import SHARDS
from tidegate.lifecycle.passes.pass_records import BucketReport
from tidegate.pipeline.plan.bucket_plan import BucketPlan

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
class BucketPass:
    """`known_since_ns` is since when the metadata log has every change in the bucket (0: since it was made).

    `shards` says what is done, shard by shard; it is empty until that is decided, and stays so if the bucket has a
    `problem`, for which it cannot be dealt with at all. `published` counts the tasks that the pass waits for.
    """

    owner: str
    bucket: Bucket
    rules: RuleSet
    bucket_context: BucketContext
    cursors: Mapping[int, Cursor]
    known_since_ns: int = 0
    parts: Partition | None = None
    clock: Clock | None = None
    shards: tuple[ShardPlan, ...] = ()
    plan: BucketPlan = field(default_factory=BucketPlan)
    published: int = 0
    outcome: BucketOutcome = field(default_factory=BucketOutcome)
    problem: str = ""

    @property
    def uid(self) -> str:
        return self.bucket.uid

    # --- what is done in each shard --------------------------------------------------------------

    def divided(self, times: PassClock, changed_ns: int | None = None, *, walks_whole: bool = False) -> Self:
        """With what the pass does in each shard. `changed_ns` is when the bucket was last changed; None: that is not
        known. With `walks_whole` everything is walked for everywhere, whatever the cursors say."""
        if self.problem:
            return self
        clock = Clock(times.now_ns, times.landed_ns, self._horizon_ns(times.log_horizon_ns), changed_ns)
        parts = partition(
            self.rules,
            day_seconds=self.bucket_context.day_seconds,
            classes=self.bucket_context.classes,
            retention_ns=_retention_ns(times, clock),
            allowance_ns=times.allowance_ns + LISTED_LATE_NS,
        )
        shards = tuple(
            whole_walk(clock)
            if walks_whole
            else plan_shard(self.cursors.get(shard), parts, clock, walker_interval_ns=times.walker_interval_ns)
            for shard in range(SHARDS)
        )
        return replace(self, parts=parts, clock=clock, shards=shards)

    def depends_on_changes(self, times: PassClock) -> bool:
        """Whether it makes a difference if the bucket was changed since its last walk."""
        return self.is_walked and self.divided(times, changed_ns=0).shards != self.shards

    @property
    def is_log_complete(self) -> bool:
        return self.clock is not None and self.clock.horizon_ns == 0

    @property
    def is_walked(self) -> bool:
        return any(shard.walk is not Walk.NONE for shard in self.shards)

    @property
    def is_replayed(self) -> bool:
        return any(shard.replays for shard in self.shards)

    @property
    def recoveries(self) -> dict[str, int]:
        return dict(Counter(shard.recovery.value for shard in self.shards if shard.recovery is not None))

    def after_ns(self) -> dict[int, int]:
        """By shard that is replayed."""
        return {number: shard.after_ns for number, shard in enumerate(self.shards) if shard.replays}

    def walked_for(self) -> dict[RuleAction, int]:
        """The actions to walk for, each with the shards, as bits of a number."""
        full, all_walks = self._bits(lambda shard: shard.walk.is_full), self._bits(lambda s: s.walk is not Walk.NONE)
        assert self.parts is not None
        found = dict.fromkeys(self.parts.replay, full) | dict.fromkeys(self.parts.walk, all_walks)
        return {pair: shards for pair, shards in found.items() if shards}

    def replayed_for(self) -> dict[RuleAction, int]:
        shards = self._bits(lambda shard: shard.replays)
        return dict.fromkeys(self.parts.replay, shards) if shards and self.parts is not None else {}

    def _bits(self, matters: Matters) -> int:
        return sum(1 << number for number, shard in enumerate(self.shards) if matters(shard))

    def _horizon_ns(self, log_horizon_ns: int) -> int:
        """Since when the log is complete for this bucket, if it is so for all from `log_horizon_ns` on."""
        lost = log_horizon_ns > int(self.bucket.created_at * SECOND_NS)
        return max(self.known_since_ns, log_horizon_ns if lost else 0)

    # --- how it ended ----------------------------------------------------------------------------

    @property
    def is_stuck(self) -> bool:
        """Whether it could not be dealt with as a whole."""
        return bool(self.told_problem) or sum(self.outcome.outcomes.values()) < self.published

    @property
    def told_problem(self) -> str:
        return self.problem or self.plan.problem

    def cursors_after(self) -> Mapping[int, Cursor]:
        """The cursors to write."""
        if self.clock is None or self.parts is None:
            return self.cursors
        revisit_ns = self.clock.now_ns + day_length_ns(self.bucket_context.day_seconds)
        found = {}
        for number, shard in enumerate(self.shards):
            first_ns = self.outcome.unsettled.get(number)
            is_blocked = self.is_stuck or first_ns is not None
            settled_ns = shard.until_ns if first_ns is None else max(first_ns - 1, shard.after_ns)
            moved = advanced(
                self.cursors.get(number),
                shard,
                self.parts,
                self.clock,
                bucket_uid=self.uid,
                shard=number,
                walked=_walk_result(shard, is_blocked),
                settled_until_ns=shard.after_ns if self.is_stuck else settled_ns,
                revisit_ns=revisit_ns if number in self.outcome.revisited else 0,
            )
            if moved is not None:
                found[number] = moved
        return found

    def report(self, cursors: Mapping[int, Cursor]) -> BucketReport:
        return BucketReport(
            self.bucket.name,
            self.uid,
            recoveries=self.recoveries,
            walked=self.is_walked,
            planned=dict(self.plan.planned),
            held=dict(self.plan.held),
            bytes=self.plan.bytes,
            outcomes=dict(self.outcome.outcomes),
            unresolved_keys=self.plan.unresolved_keys,
            problem=self.told_problem,
            lag_seconds=lag_seconds(cursors, self.clock.now_ns) if self.clock is not None else None,
        )


def lag_seconds(cursors: Mapping[int, Cursor], now_ns: int) -> float | None:
    """How far the slowest shard is behind; None while some shard was never finished."""
    if len(cursors) < SHARDS:
        return None
    lag_ns = greatest_lag_ns(cursors.values(), now_ns)
    return None if lag_ns is None else lag_ns / SECOND_NS


def _retention_ns(times: PassClock, clock: Clock) -> int | None:
    """How far back the log reaches for the bucket; None: to its creation, and it stays so."""
    limits = [times.retention_ns] if times.retention_ns else []
    if clock.horizon_ns:
        limits.append(max(clock.reach_ns - clock.horizon_ns, 0))
    return min(limits, default=None)


def _walk_result(shard: ShardPlan, is_blocked: bool) -> WalkResult:
    if shard.walk is Walk.NONE:
        return WalkResult.NONE
    return WalkResult.BLOCKED if is_blocked else WalkResult.DONE
