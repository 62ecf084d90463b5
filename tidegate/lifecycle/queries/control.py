"""What operators may stop, resume and confirm, and how that stands: the same for the HTTP API and the command line."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, Field

from tidegate.lifecycle.acting.stop_switch import StopSwitch, read_stops
from tidegate.lifecycle.passes.clock_guard import ClockGuard, clock_problems
from tidegate.lifecycle.queries.moments import moment_of
from tidegate.lifecycle.topics import backlog, create_topics
from tidegate.ports import Tables, Topics
from tidegate.settings import LifecycleSettings

SWITCHED_OFF = "lifecycle is switched off: no pass runs while lifecycle.enabled is false"
_STOPPED = "lifecycle is stopped; resume it with: tidegate lifecycle resume"


class StoppedBucketView(BaseModel):
    """A bucket in which nothing is done."""

    bucket: str
    since: datetime


class LifecycleStateView(BaseModel):
    """Whether rules are carried out, and what keeps them from it."""

    enabled: bool = Field(description="The setting lifecycle.enabled.")
    stopped: bool = Field(description="Whether an operator has stopped everything.")
    stopped_since: datetime | None
    stopped_buckets: list[StoppedBucketView] = Field(description="Buckets that an operator has stopped by themselves.")
    clock_problems: dict[str, str] = Field(description="By machine, why no pass goes by its clock.")
    clock_seen: datetime | None = Field(description="The newest time that a conductor has shown and that is believed.")
    queued_actions: int


@dataclass(frozen=True, slots=True)
class LifecycleControl:
    tables: Tables
    topics: Topics
    settings: LifecycleSettings

    def state(self) -> LifecycleStateView:
        create_topics(self.topics)
        stops = read_stops(self.tables)
        since = {stop.bucket: moment_of(stop.since_ns) for stop in stops.of.values() if stop.is_stopped}
        seen_ns = self._guard().seen_ns()
        return LifecycleStateView(
            enabled=self.settings.enabled,
            stopped=stops.everything,
            stopped_since=since.pop("", None),
            stopped_buckets=[StoppedBucketView(bucket=name, since=since[name]) for name in sorted(since)],
            clock_problems=clock_problems(self.tables),
            clock_seen=moment_of(seen_ns) if seen_ns is not None else None,
            queued_actions=backlog(self.topics),
        )

    def stop(self, bucket: str = "") -> LifecycleStateView:
        """Holds within a second: a request that is under way is finished, and nothing after it."""
        StopSwitch(self.tables, self.topics).stop(bucket, now_ns=time.time_ns())
        return self.state()

    def resume(self, bucket: str = "") -> LifecycleStateView:
        StopSwitch(self.tables, self.topics).resume(bucket, now_ns=time.time_ns())
        return self.state()

    def confirm_clock(self) -> LifecycleStateView:
        """Of this machine."""
        self._guard().confirm(time.time_ns())
        return self.state()

    def _guard(self) -> ClockGuard:
        return ClockGuard(self.tables, self.settings)


def why_refused(tables: Tables, settings: LifecycleSettings, now_ns: int, bucket: str = "") -> str:
    """Why no pass begins that would do something, or none over the bucket; empty when one may."""
    stops = read_stops(tables)
    if stops.everything:
        return _STOPPED
    if bucket and any(stop.is_stopped and stop.bucket == bucket for stop in stops.of.values()):
        return f"lifecycle is stopped in bucket {bucket}; resume it with: tidegate lifecycle resume --bucket {bucket}"
    return ClockGuard(tables, settings).problem(now_ns)
