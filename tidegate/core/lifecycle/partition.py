"""Which actions are found by replaying the metadata log and which by walking the bucket, and the hashes that tell
whether that, or the rules, changed since a cursor was written.

Replay finds what becomes due a fixed time after an event. What depends on a date or on the other versions of a key
is found by walking; so is what takes longer to become due than the log reaches back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import filterfalse

from tidegate.core.lifecycle.due import SECOND_NS, longest_wait_ns
from tidegate.core.lifecycle.rules import STORAGE_CLASSES, ActionKind, RuleAction, RuleSet, digest

REPLAY_KINDS = frozenset(
    {
        ActionKind.EXPIRATION_DAYS,
        ActionKind.NONCURRENT_DAYS,
        ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD,
        ActionKind.TRANSITION_DAYS,
        ActionKind.NONCURRENT_TRANSITION_DAYS,
    }
)


@dataclass(frozen=True, slots=True)
class Partition:
    """The enabled actions of one bucket, and what a cursor remembers of them. An empty hash stands for no action.

    `replay_hash` covers the actions that are replay-eligible by nature, whatever the log holds; `promoted_hash` those
    of them that must be walked; `walk_hash` everything that is walked. `longest_wait_ns` is the longest time between
    an event and an action that replay finds from it.
    """

    replay: tuple[RuleAction, ...]
    walk: tuple[RuleAction, ...]
    replay_hash: str
    promoted_hash: str
    walk_hash: str
    longest_wait_ns: int


def is_replay_eligible(pair: RuleAction) -> bool:
    """A count of newer versions depends on the other versions of the key, and so is no matter of one event."""
    return pair.action.kind in REPLAY_KINDS and pair.action.newer is None


def wait_ns(pair: RuleAction, *, day_seconds: float) -> int:
    return longest_wait_ns(pair.action.days or 0, day_seconds=day_seconds)


def partition(
    rule_set: RuleSet,
    *,
    day_seconds: float,
    classes: Collection[str] = STORAGE_CLASSES,
    retention_ns: int | None = None,
    allowance_ns: int = 0,
) -> Partition:
    """`retention_ns` is how far back the log is complete (None: to the bucket's creation). `allowance_ns` is what
    must be left of it when an action becomes due: the time until the next pass. Transitions to other classes than
    these are left out: when a location comes to serve one, that is as if a rule had been added."""

    def replayed(pair: RuleAction) -> bool:
        needed_ns = wait_ns(pair, day_seconds=day_seconds) + allowance_ns
        return is_replay_eligible(pair) and (retention_ns is None or needed_ns <= retention_ns)

    active = [pair for pair in rule_set.active() if pair.action.storage_class in ("", *classes)]
    replay = tuple(filter(replayed, active))
    walk = tuple(filterfalse(replayed, active))
    return Partition(
        replay=replay,
        walk=walk,
        replay_hash=_content_hash([pair for pair in active if is_replay_eligible(pair)], rule_set, day_seconds),
        promoted_hash=_content_hash([pair for pair in walk if is_replay_eligible(pair)], rule_set, day_seconds),
        walk_hash=_content_hash(walk, rule_set, day_seconds),
        longest_wait_ns=max((wait_ns(pair, day_seconds=day_seconds) for pair in replay), default=0),
    )


def something_to_walk_for(parts: Partition, *, since_ns: int | None, now_ns: int, is_changed: bool) -> bool:
    """Whether a walk at `now_ns` can find something due that one at `since_ns` (None: there was none) did not.

    A count of days runs on by itself. A date brings something when it comes, and afterwards, like the clean-up of
    markers, only when the bucket is changed.
    """
    return any(_may_find(pair, since_ns, now_ns, is_changed) for pair in parts.walk)


def _may_find(pair: RuleAction, since_ns: int | None, now_ns: int, is_changed: bool) -> bool:
    date = pair.action.date
    if date is not None:
        date_ns = date * SECOND_NS
        return date_ns <= now_ns and (is_changed or since_ns is None or since_ns < date_ns)
    return is_changed or since_ns is None or pair.action.days is not None


def _content_hash(pairs: Sequence[RuleAction], rule_set: RuleSet, day_seconds: float) -> str:
    """Of what the actions do and to what: neither their rules' names nor their order count."""
    if not pairs:
        return ""
    moves = any(pair.action.kind.is_transition for pair in pairs)
    return digest(
        {
            "actions": sorted(digest(pair.content()) for pair in pairs),
            "day_seconds": float(day_seconds),
            "minimum": rule_set.minimum.value if moves else None,
        }
    )
