"""Passes as the tables know them: reports of those that ran, progress of the one that runs, and requests for more."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal, Self

from tidegate.core.codec import JsonRecord
from tidegate.ports import Tables
from tidegate.table_pages import every

REPORTS = "lifecycle/passes/"
REQUESTS = "lifecycle/requests/"
PROGRESS = "lifecycle/progress"
_MOST_REPORTS = 500

Stage = Literal["starting", "landing", "planning", "publishing", "acting", "settling"]


class PassStatus(StrEnum):
    """How a pass stands. `BLOCKED`: it came to its end, and something that is due could not be done."""

    RUNNING = "running"
    OK = "ok"
    BLOCKED = "blocked"
    TIMEOUT = "timeout"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class BucketReport(JsonRecord):
    """What a pass did in one bucket.

    `recoveries` says in how many shards everything had to be walked, by reason; `walked` whether the bucket was
    listed at all. `planned` counts actions by kind and `held` those that wait, by what holds them; `bytes` is what
    the planned actions concern. `problem` says why the bucket could not be dealt with, and `lag_seconds` how far it
    is behind (None: nothing was ever finished there).
    """

    bucket: str
    uid: str
    recoveries: dict[str, int] = field(default_factory=dict)
    walked: bool = False
    planned: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    unresolved_keys: int = 0
    problem: str = ""
    lag_seconds: float | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether something is due and could not be done."""
        return bool(self.problem) or any(self.outcomes.get(name) for name in ("BLOCKED", "RETRY_LATER", "STOPPED"))

    @property
    def is_eventful(self) -> bool:
        """Whether there is something to say of the bucket beside its lag."""
        told = replace(self, lag_seconds=None, walked=False)
        return told != BucketReport(self.bucket, self.uid)


@dataclass(frozen=True, slots=True)
class PassReport(JsonRecord):
    """`now_ns` is the time at which everything is judged. `details` has the buckets of which there is something to
    say. `audit_ends` is where the audit trail stood when the pass began."""

    id: str
    engine: str
    trigger: str
    now_ns: int
    buckets: int
    audit_ends: list[int] = field(default_factory=list)
    only_bucket: str = ""
    dry_run: bool = False
    status: PassStatus = PassStatus.RUNNING
    ended_ns: int | None = None
    outcomes: dict[str, int] = field(default_factory=dict)
    planned: int = 0
    landed_events: int = 0
    problem: str = ""
    details: list[BucketReport] = field(default_factory=list)

    def ended(self, at_ns: int, status: PassStatus, details: Iterable[BucketReport] = (), problem: str = "") -> Self:
        told = sorted((detail for detail in details if detail.is_eventful), key=lambda detail: detail.bucket)
        return replace(
            self,
            ended_ns=at_ns,
            status=status,
            problem=problem,
            outcomes=_added(detail.outcomes for detail in told),
            planned=sum(sum(detail.planned.values()) for detail in told),
            details=told,
        )

    def repeats(self, earlier: PassReport) -> bool:
        """Whether it tells nothing that the earlier one did not, but its time."""
        return self._timeless() == earlier._timeless()

    def _timeless(self) -> Self:
        details = [replace(detail, lag_seconds=None) for detail in self.details]
        return replace(self, id="", now_ns=0, ended_ns=None, audit_ends=[], details=details)


@dataclass(frozen=True, slots=True)
class PassProgress(JsonRecord):
    """How far the pass that runs has come: actions that are `planned` and `finished`, since when it is in its stage."""

    id: str
    stage: Stage
    since_ns: int
    planned: int = 0
    finished: int = 0
    buckets: int = 0

    @classmethod
    def load(cls, tables: Tables) -> Self | None:
        """None when no pass runs."""
        text = tables.get(PROGRESS)
        return cls.from_json(text) if text is not None else None

    def store(self, tables: Tables) -> None:
        tables.put(PROGRESS, self.to_json())

    @staticmethod
    def clear(tables: Tables) -> None:
        tables.delete(PROGRESS)


@dataclass(frozen=True, slots=True)
class PassRequest(JsonRecord):
    """A pass that somebody asked for. It waits while another one runs. An empty engine is the configured one."""

    id: str
    bucket: str = ""
    dry_run: bool = False
    engine: str = ""


@dataclass(frozen=True, slots=True)
class PassOrder:
    """What an engine is told: everything is judged at `now_ns`, and the next pass comes `next_ns` later. An empty
    bucket stands for all."""

    id: str
    trigger: str
    now_ns: int
    next_ns: int
    bucket: str = ""
    dry_run: bool = False

    @property
    def is_requested(self) -> bool:
        """Somebody waits for its report."""
        return self.trigger != "schedule"


class PassRequests:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def submit(self, bucket: str = "", dry_run: bool = False, *, engine: str = "", now: float) -> str:
        """The id of the pass to come: its report is there as soon as it has begun."""
        request = PassRequest(new_pass_id(int(now * 1e9)), bucket, dry_run, engine)
        self._tables.put(REQUESTS + request.id, request.to_json())
        return request.id

    def oldest(self, *, only_dry_runs: bool = False) -> PassRequest | None:
        for _, text in every(self._tables, REQUESTS):
            request = PassRequest.from_json(text)
            if request.dry_run or not only_dry_runs:
                return request
        return None

    def done(self, pass_id: str) -> None:
        self._tables.delete(REQUESTS + pass_id)


class PassReports:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def put(self, report: PassReport) -> None:
        self._tables.put(REPORTS + report.id, report.to_json())

    def get(self, pass_id: str) -> PassReport | None:
        text = self._tables.get(REPORTS + pass_id)
        return PassReport.from_json(text) if text is not None else None

    def all(self) -> list[PassReport]:
        """The oldest first."""
        return [PassReport.from_json(text) for _, text in every(self._tables, REPORTS)]

    def ids(self) -> list[str]:
        """The oldest first."""
        return [key.removeprefix(REPORTS) for key, _ in every(self._tables, REPORTS)]

    def remove(self, pass_id: str) -> None:
        self._tables.delete(REPORTS + pass_id)

    def prune(self) -> None:
        """Keeps the newest."""
        for pass_id in self.ids()[:-_MOST_REPORTS]:
            self.remove(pass_id)


def new_pass_id(now_ns: int) -> str:
    """Sorts by time; two passes never have the same."""
    stamp = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return f"{stamp}-{secrets.token_hex(3)}"


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
