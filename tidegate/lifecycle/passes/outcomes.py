"""How the actions of a pass end: the audit trail followed while they are carried out, and counted.

Only counts are kept, and where the first trouble was. Of a pass of any size that is a few numbers per bucket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidegate.core.lifecycle.routes import ROUTES
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, Ended
from tidegate.core.shards import shard
from tidegate.lifecycle.passes.bucket_pass import BucketOutcome
from tidegate.ports import Topics
from tidegate.topic_pages import appended_since


class OutcomeTracker:
    """Of the actions of one pass, from where the audit trail stood (`ends`) when it began."""

    def __init__(self, topics: Topics, pass_id: str, ends: Sequence[int]) -> None:
        self._topics = topics
        self._pass_id = pass_id
        self._next = list(ends)
        self._buckets: dict[str, _Tally] = {}
        self.finished = 0

    def catch_up(self) -> int:
        """Takes in what has ended since the last call; gives the number of all that have."""
        for message in appended_since(self._topics, AUDIT_TOPIC, self._next):
            self._take_in(Ended.from_json(message.value))
            self._next[message.partition] = message.offset + 1
        return self.finished

    def of(self, bucket_uid: str) -> BucketOutcome:
        tally = self._buckets.get(bucket_uid)
        return tally.outcome() if tally is not None else BucketOutcome()

    def _take_in(self, ended: Ended) -> None:
        """What was handed over may end within the pass. It is not among what the pass waits for."""
        if ended.pass_id == self._pass_id and not ROUTES[ended.effect].is_handed_over:
            self._buckets.setdefault(ended.bucket_uid, _Tally()).add(ended)
            self.finished += 1


class _Tally:
    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._unsettled: dict[int, int] = {}
        self._revisited: set[int] = set()

    def add(self, ended: Ended) -> None:
        self._outcomes[ended.outcome.value] += 1
        if not ended.is_settled:
            where = shard(ended.bucket, ended.key)
            self._unsettled[where] = min(self._unsettled.get(where, ended.became_due_ns), ended.became_due_ns)
        elif ended.outcome.is_held:
            self._revisited.add(shard(ended.bucket, ended.key))

    def outcome(self) -> BucketOutcome:
        return BucketOutcome(dict(self._outcomes), dict(self._unsettled), frozenset(self._revisited))
