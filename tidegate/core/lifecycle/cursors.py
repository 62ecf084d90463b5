"""How far lifecycle has come in one shard of one bucket, and what the next pass must do there.

A cursor moves only past work that is settled. What is due up to the frontier is done; the frontier never passes the
events that have been landed, nor the pass's own `now`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Self

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.partition import Partition


@dataclass(frozen=True, slots=True)
class Cursor:
    """`ts_ns` is the log's time up to which events were taken in, `frontier_ns` the time up to which everything that
    became due is done. The hashes are those of the partition under which that holds."""

    PREFIX = "lc:"

    bucket_uid: str
    shard: int
    ts_ns: int
    rule_set_hash: str
    promoted_hash: str
    last_walked_ns: int = 0
    walked_hash: str = ""
    frontier_ns: int = 0

    @classmethod
    def table_key(cls, bucket_uid: str, shard: int) -> str:
        return f"{cls.PREFIX}{bucket_uid}:{shard:02d}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Fields that a newer version has added are ignored."""
        try:
            values = json.loads(text)
            return cls(**{name: values[name] for name in cls.__slots__ if name in values})
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput(f"not a stored lifecycle cursor: {error!r}") from None


class Recovery(StrEnum):
    """Why everything must be walked once, whatever the walker's interval."""

    COLD_START = "cold-start"
    RULE_EDIT = "rule-edit"
    PARTITION_FLIP = "partition-flip"
    BEHIND_HORIZON = "behind-horizon"


class Walk(StrEnum):
    """What to walk for: nothing, the actions that only walking finds, or every action there is."""

    NONE = "none"
    STEADY = "steady"
    RECOVERY = "recovery"


class WalkResult(StrEnum):
    """`BLOCKED`: the walk did not end, or something it found is not settled."""

    NONE = "none"
    DONE = "done"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """If it `replays`, it covers what became due after `after_ns` and not after `until_ns`."""

    recovery: Recovery | None
    walk: Walk
    replays: bool
    after_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Clock:
    """The times of one pass for one bucket: its frozen `now_ns`, up to when the log has been landed, and since when
    it is complete (0: since the bucket was created)."""

    now_ns: int
    landed_ns: int
    horizon_ns: int = 0

    @property
    def reach_ns(self) -> int:
        return min(self.now_ns, self.landed_ns)


def plan_shard(cursor: Cursor | None, parts: Partition, clock: Clock, *, walker_interval_ns: int) -> ShardPlan:
    """What the pass does in one shard. A recovery walks for every action, so that no replay is needed beside it."""
    until_ns = clock.reach_ns
    reason = recovery(cursor, parts, clock)
    if cursor is None or reason is not None:
        walk = Walk.RECOVERY if parts.replay or parts.walk else Walk.NONE
        return ShardPlan(reason, walk, replays=False, after_ns=until_ns, until_ns=until_ns)
    walks = bool(parts.walk) and walker_due(cursor, parts, clock.now_ns, walker_interval_ns)
    replays = bool(parts.replay) and until_ns > cursor.frontier_ns
    return ShardPlan(None, Walk.STEADY if walks else Walk.NONE, replays, cursor.frontier_ns, until_ns)


def recovery(cursor: Cursor | None, parts: Partition, clock: Clock) -> Recovery | None:
    """The last one: an event that would become due after the frontier may have left the log already."""
    if cursor is None:
        return Recovery.COLD_START
    if cursor.rule_set_hash != parts.replay_hash:
        return Recovery.RULE_EDIT
    if cursor.promoted_hash != parts.promoted_hash:
        return Recovery.PARTITION_FLIP
    if clock.horizon_ns and parts.replay and cursor.frontier_ns - parts.longest_wait_ns < clock.horizon_ns:
        return Recovery.BEHIND_HORIZON
    return None


def walker_due(cursor: Cursor, parts: Partition, now_ns: int, interval_ns: int) -> bool:
    """By the interval; at once where it never walked for these actions, or where the clock was set back."""
    if interval_ns == 0 or cursor.last_walked_ns == 0 or cursor.walked_hash != parts.walk_hash:
        return True
    return now_ns < cursor.last_walked_ns or now_ns - cursor.last_walked_ns >= interval_ns


def advanced(
    cursor: Cursor | None,
    plan: ShardPlan,
    parts: Partition,
    clock: Clock,
    *,
    bucket_uid: str,
    shard: int,
    walked: WalkResult,
    settled_until_ns: int,
) -> Cursor | None:
    """The cursor after a pass; None while a cold start has not succeeded.

    `settled_until_ns` is the time up to which everything that replay found is settled: the plan's `until_ns` when
    all of it is, one less than the first time at which something unsettled became due, `after_ns` if nothing was
    replayed. A recovery counts only as a whole: until its walk is done the old cursor stays, and the next pass
    tries again.
    """
    if cursor is None or plan.recovery is not None:
        if plan.walk is Walk.RECOVERY and walked is not WalkResult.DONE:
            return cursor
        cursor = Cursor(bucket_uid, shard, 0, parts.replay_hash, parts.promoted_hash)
    # A clock that was set back takes the frontier back with it: what is done already will be found to be gone.
    frontier_ns = min(clock.reach_ns, settled_until_ns) if plan.replays else clock.reach_ns
    moved = replace(cursor, ts_ns=max(cursor.ts_ns, clock.landed_ns), frontier_ns=frontier_ns)
    if walked is WalkResult.DONE:
        moved = replace(moved, last_walked_ns=clock.now_ns, walked_hash=parts.walk_hash)
    return moved
