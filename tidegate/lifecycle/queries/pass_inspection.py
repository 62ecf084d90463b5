"""What operators see of passes and ask of them, the same for the HTTP API and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, Field

from tidegate.core.errors import Conflict, NotFound, Unavailable
from tidegate.core.records import Bucket
from tidegate.lifecycle.passes.pass_lock import LOCK
from tidegate.lifecycle.passes.pass_records import (
    REPORTS,
    REQUESTS,
    PassProgress,
    PassReport,
    PassReports,
    PassRequest,
    PassRequests,
)
from tidegate.lifecycle.passes.plan_files import PlanEntry, PlanFiles, PlannedActions
from tidegate.lifecycle.queries.control import SWITCHED_OFF, why_refused
from tidegate.lifecycle.queries.moments import moment_of
from tidegate.ports import Tables
from tidegate.settings import LifecycleSettings
from tidegate.table_pages import every
from tidegate.views import filled

_POLL_SECONDS = 0.2
_MOST_WAITING = 100

EngineName = Literal["", "spark", "listing"]


class BucketReportView(BaseModel):
    """What a pass did in one bucket."""

    bucket: str
    uid: str
    recoveries: dict[str, int] = Field(description="Shards in which everything had to be looked at, by reason.")
    walked: bool = Field(description="Whether the bucket was listed.")
    planned: dict[str, int] = Field(description="Actions by kind.")
    held: dict[str, int] = Field(description="Actions that wait, by what holds them.")
    bytes: int = Field(description="Of what the planned actions are about.")
    outcomes: dict[str, int] = Field(description="What became of the actions.")
    unresolved_keys: int = Field(description="Keys that cannot be judged by what was listed; left alone.")
    problem: str = Field(description="Why the bucket could not be dealt with; empty: it was.")
    lag_seconds: float | None = Field(description="How far the bucket is behind; none: nothing was finished there yet.")


class PassView(BaseModel):
    """A pass that runs or ran."""

    id: str
    engine: str = Field(examples=["spark"])
    trigger: str = Field(examples=["schedule"])
    status: str = Field(examples=["ok"], description="running, ok, blocked, timeout, failed or interrupted.")
    now: datetime = Field(description="The time at which everything is judged.")
    ended_at: datetime | None
    buckets: int
    only_bucket: str = Field(description="The bucket that it was limited to; empty: all.")
    dry_run: bool
    landed_events: int
    planned: int
    outcomes: dict[str, int]
    problem: str
    details: list[BucketReportView] = Field(description="The buckets of which there is something to say.")


class PassDetailView(PassView):
    """A pass with what its plan says, by rule."""

    plan: list[PlannedActions]
    entries: list[PlanEntry] = Field(description="The first entries of the plan, as many as were asked for.")


class PassProgressView(BaseModel):
    """How far the pass that runs has come."""

    id: str
    stage: str = Field(examples=["acting"])
    since: datetime = Field(description="Since when it is in this stage.")
    planned: int
    finished: int
    buckets: int


class PassRequestView(BaseModel):
    """A pass that was asked for and has not begun."""

    id: str
    bucket: str
    dry_run: bool
    engine: str = Field(description="Empty: the configured one.")


class CurrentPassView(BaseModel):
    """The pass that runs, if one does, and those that wait for it."""

    running: PassProgressView | None
    refused: str = Field(description="Why no pass begins that would do something; empty: one may.")
    waiting: list[PassRequestView]
    last: PassView | None = Field(description="The newest pass that has ended.")


_View = TypeVar("_View", bound=PassView)


@dataclass(frozen=True, slots=True)
class PassInspector:
    """`data` is the data directory, where passes leave their plans."""

    tables: Tables
    settings: LifecycleSettings
    data: Path

    def submit(self, bucket: str = "", *, dry_run: bool = False, engine: EngineName = "") -> PassRequestView:
        """Asks for a pass; it begins when no other runs."""
        if not self.settings.enabled:
            raise Unavailable(SWITCHED_OFF)
        refused = "" if dry_run else why_refused(self.tables, self.settings, time.time_ns(), bucket)
        if refused:
            raise Conflict(refused)
        if bucket and self.tables.get(Bucket.PREFIX + bucket) is None:
            raise NotFound(f"there is no bucket {bucket}")
        if len(self.tables.scan(REQUESTS, limit=_MOST_WAITING)) == _MOST_WAITING:
            raise Conflict(f"{_MOST_WAITING} passes wait already; ask again when some have run")
        pass_id = PassRequests(self.tables).submit(bucket, dry_run, engine=engine, now=time.time())
        return PassRequestView(id=pass_id, bucket=bucket, dry_run=dry_run, engine=engine)

    def show(self, pass_id: str, *, entries: int = 0) -> PassDetailView:
        report = PassReports(self.tables).get(pass_id)
        if report is None:
            waits = self.tables.get(REQUESTS + pass_id) is not None
            raise NotFound(f"the pass {pass_id} has not begun yet" if waits else f"there is no pass {pass_id}")
        files = PlanFiles(self.data, report.id)
        return _view(PassDetailView, report, plan=files.sums(), entries=files.first(entries))

    def history(self, count: int) -> list[PassView]:
        """The newest, the oldest of them first."""
        return [view_pass(PassReport.from_json(text)) for text in self._reports()[-count:]]

    def current(self) -> CurrentPassView:
        running = self._running()
        requests = [PassRequest.from_json(text) for _, text in every(self.tables, REQUESTS)]
        newest_first = map(PassReport.from_json, reversed(self._reports()))
        last = next((report for report in newest_first if report.ended_ns is not None), None)
        return CurrentPassView(
            running=running,
            refused=why_refused(self.tables, self.settings, time.time_ns()),
            waiting=[filled(PassRequestView, request) for request in requests],
            last=view_pass(last) if last is not None else None,
        )

    def wait(self, pass_id: str, watch: Callable[[PassProgressView | None], None]) -> PassView:
        """Until the pass has come to its end; `watch` is told how far the pass has come that runs, this or another."""
        reports = PassReports(self.tables)
        while True:
            report = reports.get(pass_id)
            if report is not None and report.ended_ns is not None:
                return view_pass(report)
            if report is None and self.tables.get(REQUESTS + pass_id) is None and reports.get(pass_id) is None:
                raise NotFound(f"there is no pass {pass_id}")
            watch(self._running())
            time.sleep(_POLL_SECONDS)

    def _reports(self) -> list[str]:
        """As they are stored, the oldest first: there may be many, and few are looked at."""
        return [text for _, text in every(self.tables, REPORTS)]

    def _running(self) -> PassProgressView | None:
        """A pass that was killed leaves its progress and no lock, sooner or later."""
        progress = PassProgress.load(self.tables)
        if progress is not None and self.tables.get(LOCK) is not None:
            return filled(PassProgressView, progress, since=moment_of(progress.since_ns))
        return None


def view_pass(report: PassReport) -> PassView:
    return _view(PassView, report)


def _view(view: type[_View], report: PassReport, **given: object) -> _View:
    return filled(
        view,
        report,
        now=moment_of(report.now_ns),
        ended_at=moment_of(report.ended_ns) if report.ended_ns is not None else None,
        details=[filled(BucketReportView, detail) for detail in report.details],
        **given,
    )
