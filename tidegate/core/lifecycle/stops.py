"""What an operator has stopped: all of lifecycle, or single buckets, and which queued tasks are void for that.

A stop voids what is queued. While it lasts, workers drop every task that they get; when it ends, the tasks that are
queued at that moment stay void, since they were planned before. They are told apart by their place in their topic, not
by time: a clock is no witness of what came first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tidegate.core import codec
from tidegate.core.codec import JsonRecord

# By topic, where each partition ended at some moment.
Ends = Mapping[str, Sequence[int]]

EVERYTHING = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Of everything, or of the bucket of that name. What is queued `void_before` is void also when the stop is over."""

    is_stopped: bool
    since_ns: int
    bucket: str = ""
    void_before: Ends = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stops(JsonRecord):
    """By bucket uid; `EVERYTHING` stands for all. `number` counts the stops of everything: a pass that saw another
    number began before one of them."""

    number: int = 0
    of: Mapping[str, Stop] = field(default_factory=dict)

    @property
    def everything(self) -> bool:
        return self._is_stopped(EVERYTHING)

    def why_stopped(self, bucket_uid: str) -> str:
        """Why nothing may be done in the bucket; empty when it may."""
        if self.everything:
            return "lifecycle is stopped"
        return "lifecycle is stopped in this bucket" if self._is_stopped(bucket_uid) else ""

    def why_void(self, bucket_uid: str, topic: str, partition: int, offset: int) -> str:
        """Why a task that stands there must not be carried out; empty when it may."""
        for scope in (EVERYTHING, bucket_uid):
            found = self.of.get(scope)
            ends = found.void_before.get(topic, ()) if found is not None else ()
            if partition < len(ends) and offset < ends[partition]:
                return "it was queued before lifecycle was stopped"
        return self.why_stopped(bucket_uid)

    def stopped(self, scope: str, bucket: str, now_ns: int) -> Stops:
        if self._is_stopped(scope):
            return self
        number = self.number + (scope == EVERYTHING)
        earlier = self.of.get(scope)
        # What an earlier stop made void stays so.
        void_before = earlier.void_before if earlier is not None else {}
        return Stops(number, {**self.of, scope: Stop(True, now_ns, bucket, void_before)})

    def resumed(self, scope: str, now_ns: int, queued: Ends) -> Stops:
        """`queued` is where the topics of tasks end now."""
        found = self.of.get(scope)
        if found is None or not found.is_stopped:
            return self
        return Stops(
            self.number, {**self.of, scope: replace(found, is_stopped=False, since_ns=now_ns, void_before=queued)}
        )

    def voided(self, now_ns: int, queued: Ends) -> Stops:
        """With everything void that is queued now, whether it is stopped or not."""
        found = self.of.get(EVERYTHING, Stop(False, now_ns))
        return Stops(self.number + 1, {**self.of, EVERYTHING: replace(found, void_before=queued)})

    def without_past(self, held: Ends) -> Stops:
        """Without the stops that are over and void nothing any more: `held` is where the topics begin."""
        left = {scope: stop for scope, stop in self.of.items() if stop.is_stopped or _voids(stop.void_before, held)}
        return Stops(self.number, left)

    def _is_stopped(self, scope: str) -> bool:
        found = self.of.get(scope)
        return found is not None and found.is_stopped

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """A stop that was lost must not read as none."""
        what = "stored stop of lifecycle"
        return codec.complete(codec.decoded(text, dict[str, Any], what), cls, what)


def _voids(void_before: Ends, held: Ends) -> bool:
    return any(
        end > first
        for topic, ends in void_before.items()
        for end, first in zip(ends, held.get(topic, ()), strict=False)
    )
