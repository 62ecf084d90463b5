"""How far lifecycle has come in one shard of one bucket, and what the next pass must do there.

A cursor moves only past work that is settled. What is due up to the frontier is done; the frontier never passes the
events that have been landed, nor the pass's own `now`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from tidegate.core import codec
from tidegate.core.lifecycle.due import SECOND_NS
from tidegate.core.lifecycle.partition import Partition, something_to_walk_for

# The cursors of a bucket stand in the tables under this and the bucket's uid.
CURSORS = "lifecycle/cursors/"
# Listings tell times in whole seconds, and by the store's clock: what became due so shortly before a full walk may not
# look due to it. The frontier stays behind by as much, and replay finds it.
LISTED_LATE_NS = 2 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Cursor:
    """`ts_ns` is the log's time up to which events were taken in, `frontier_ns` the time up to which everything that
    became due is done. The hashes are those of the partition under which that holds. From `revisit_ns` on (if it is
    not 0) the shard must be walked for every action: something there was due and locked."""

    bucket_uid: str
    shard: int
    ts_ns: int
    rule_set_hash: str
    promoted_hash: str
    last_walked_ns: int = 0
    walked_hash: str = ""
    frontier_ns: int = 0
    revisit_ns: int = 0


def cursors_to_json(cursors: Iterable[Cursor]) -> str:
    """Those of one bucket. Most shards stand at the same point, which is written once."""
    shards: dict[Cursor, list[int]] = {}
    for cursor in cursors:
        shards.setdefault(replace(cursor, shard=0), []).append(cursor.shard)
    return codec.to_text([[where, _without_shard(cursor)] for cursor, where in shards.items()])


def cursors_from_json(text: str) -> dict[int, Cursor]:
    """By shard."""
    what = "stored list of a bucket's lifecycle cursors"
    stored = codec.decoded(text, list[tuple[list[int], dict[str, Any]]], what)
    return {
        shard: codec.converted({**values, "shard": shard}, Cursor, what)
        for shards, values in stored
        for shard in shards
    }


def _without_shard(cursor: Cursor) -> dict[str, Any]:
    return {name: value for name, value in asdict(cursor).items() if name != "shard"}


def set_back(cursors: Mapping[int, Cursor], oldest_ns: int) -> dict[int, Cursor]:
    """The cursors of a bucket of which an event comes to be known that may be older than what they say is done: a tag
    or a deletion may have made something due before the frontier. It is looked for once more."""
    return {
        shard: replace(cursor, frontier_ns=min(cursor.frontier_ns, oldest_ns - 1)) for shard, cursor in cursors.items()
    }


class Recovery(StrEnum):
    """Why everything must be walked once, whatever the walker's interval."""

    COLD_START = "cold-start"
    RULE_EDIT = "rule-edit"
    PARTITION_FLIP = "partition-flip"
    BEHIND_HORIZON = "behind-horizon"


class Walk(StrEnum):
    """What to walk for: nothing, the actions that only walking finds, or every action there is (to recover, or to
    come back to what was locked)."""

    NONE = "none"
    STEADY = "steady"
    RECOVERY = "recovery"
    REVISIT = "revisit"

    @property
    def is_full(self) -> bool:
        return self in (Walk.RECOVERY, Walk.REVISIT)


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
    """The times of one pass for one bucket: its frozen `now_ns`, up to when the log has been landed, since when it is
    complete (0: since the bucket was created), and when the bucket was last changed (None: that is not known)."""

    now_ns: int
    landed_ns: int
    horizon_ns: int = 0
    changed_ns: int | None = None

    @property
    def reach_ns(self) -> int:
        return min(self.now_ns, self.landed_ns)


def plan_shard(cursor: Cursor | None, parts: Partition, clock: Clock, *, walker_interval_ns: int) -> ShardPlan:
    """What the pass does in one shard. A full walk is for every action, so that no replay is needed beside it."""
    until_ns = clock.reach_ns
    walked_until_ns = min(until_ns, clock.now_ns - LISTED_LATE_NS)
    reason = recovery(cursor, parts, clock)
    has_actions = bool(parts.replay or parts.walk)
    if cursor is None or reason is not None:
        walk = Walk.RECOVERY if has_actions else Walk.NONE
        return ShardPlan(reason, walk, replays=False, after_ns=walked_until_ns, until_ns=walked_until_ns)
    if has_actions and revisit_due(cursor, clock.now_ns):
        return ShardPlan(None, Walk.REVISIT, replays=False, after_ns=walked_until_ns, until_ns=walked_until_ns)
    walks = walker_due(cursor, parts, clock.now_ns, walker_interval_ns) and _walk_may_find(cursor, parts, clock)
    replays = bool(parts.replay) and until_ns > cursor.frontier_ns
    return ShardPlan(None, Walk.STEADY if walks else Walk.NONE, replays, cursor.frontier_ns, until_ns)


def whole_walk(clock: Clock) -> ShardPlan:
    """For a pass that walks for every action in any case, without a log. Its frontier is as far as a full walk's."""
    until_ns = min(clock.reach_ns, clock.now_ns - LISTED_LATE_NS)
    return ShardPlan(None, Walk.RECOVERY, replays=False, after_ns=until_ns, until_ns=until_ns)


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


def revisit_due(cursor: Cursor, now_ns: int) -> bool:
    """By the clock; one that was set back must not put it off further."""
    return cursor.revisit_ns != 0 and (now_ns >= cursor.revisit_ns or now_ns < cursor.last_walked_ns)


def _walk_may_find(cursor: Cursor, parts: Partition, clock: Clock) -> bool:
    """Whether a walk can find something that the last one did not."""
    if cursor.walked_hash != parts.walk_hash or clock.now_ns < cursor.last_walked_ns:
        return something_to_walk_for(parts, since_ns=None, now_ns=clock.now_ns, is_changed=True)
    is_changed = clock.changed_ns is None or clock.changed_ns > cursor.last_walked_ns
    return something_to_walk_for(parts, since_ns=cursor.last_walked_ns, now_ns=clock.now_ns, is_changed=is_changed)


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
    revisit_ns: int = 0,
) -> Cursor | None:
    """The cursor after a pass; None while a cold start has not succeeded.

    `settled_until_ns` is the time up to which everything that replay found is settled: the plan's `until_ns` when
    all of it is, one less than the first time at which something unsettled became due, `after_ns` if nothing was
    replayed. A full walk counts only as a whole: until it is done the old cursor stays, and the next pass tries
    again. `revisit_ns` is when to come back to what was found locked in this pass (0: nothing was).
    """
    if plan.walk.is_full and walked is not WalkResult.DONE:
        return cursor
    if cursor is None or plan.walk.is_full or plan.recovery is not None:
        cursor = Cursor(bucket_uid, shard, 0, parts.replay_hash, parts.promoted_hash)
    # A clock that was set back takes the frontier back with it: what is done already will be found to be gone.
    settled_ns = settled_until_ns if plan.replays else plan.until_ns
    if walked is WalkResult.BLOCKED:
        settled_ns = plan.after_ns
    frontier_ns = min(clock.reach_ns, settled_ns)
    moved = replace(cursor, ts_ns=max(cursor.ts_ns, clock.landed_ns), frontier_ns=frontier_ns)
    if walked is WalkResult.DONE:
        moved = replace(moved, last_walked_ns=clock.now_ns, walked_hash=parts.walk_hash)
    # What was found locked earlier is due for its visit first.
    return replace(moved, revisit_ns=moved.revisit_ns or revisit_ns)
