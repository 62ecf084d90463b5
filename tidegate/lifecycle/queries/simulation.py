"""What rules would do to a bucket and when, before they are put: its listing, looked at through the core's foresight.

Only counters are kept, so that a bucket of any size can be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import BaseModel, Field

from tidegate.core.cron import Cron
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.due import REAL_DAY_SECONDS, SECOND_NS, day_length_ns
from tidegate.core.lifecycle.forecast import Forecast, ForecastAction, Forecaster, PassAt
from tidegate.core.lifecycle.matching import matches
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.subjects import Upload, Version
from tidegate.core.listings import ListedVersion
from tidegate.lifecycle.passes.listing_evaluator import (
    ListingEvaluator,
    common_prefix,
    upload_of,
    version_of,
    without_tags,
)
from tidegate.lifecycle.queries.moments import moment_of
from tidegate.walking import UNSHOWABLE, stretches, upload_pages

_THREADS = 8
_DESTROYS = frozenset({Effect.DELETE, Effect.EXPIRE})

# Told how many keys have been looked at; False ends the simulation there.
Progress = Callable[[int], bool]


class SimulatedActions(BaseModel):
    """Actions of one kind by one rule."""

    rule_id: str
    kind: str = Field(examples=["ExpirationDays"])
    action: str = Field(examples=["deleteObject"])
    storage_class: str = Field(description="Where a transition moves objects to.")
    held: str = Field(description="What they wait for instead of being taken; empty: nothing.")
    count: int
    bytes: int = Field(description="Of the versions that they are about.")
    freed_bytes: int = Field(description="That are destroyed; a version that is only hidden frees none.")


class SimulatedDay(BaseModel):
    """What is done on one day."""

    begins_at: datetime
    actions: list[SimulatedActions]


class Amount(BaseModel):
    """Delete markers count as versions."""

    versions: int = 0
    bytes: int = 0
    uploads: int = 0


class SimulationView(BaseModel):
    """What rules would do to a bucket, if nothing else changed it and passes began when they should."""

    bucket: str
    versioning: str
    at: datetime
    until: datetime
    day_seconds: float
    prefix: str = Field(description="Only keys that begin with this were looked at: no rule is about others.")
    keys: int
    seen: Amount
    at_once: list[SimulatedActions] = Field(description="Due already: the first pass does this.")
    days: list[SimulatedDay]
    later: Amount = Field(description="What is untouched until then and due after it.")
    never: Amount = Field(description="What no rule applies to as things stand.")
    unresolved_keys: int = Field(description="Keys that listings do not show as they are; left alone.")
    is_complete: bool = Field(description="Whether the whole bucket was looked at.")


def passes_at(now_ns: int, *, interval_seconds: float, cron: str) -> PassAt:
    """When passes begin after the one at `now_ns`: at regular intervals, or by the cron expression."""
    if interval_seconds:
        step_ns = round(interval_seconds * SECOND_NS)
        return lambda moment_ns: now_ns + -(-(moment_ns - now_ns) // step_ns) * step_ns
    expression = Cron.parse(cron)

    def by_cron(moment_ns: int) -> int:
        following = expression.next_after(-(-moment_ns // SECOND_NS) - 1)
        assert following is not None  # Cron.parse refuses what never comes
        return int(following) * SECOND_NS

    return by_cron


@dataclass(slots=True)
class _Count:
    count: int = 0
    bytes: int = 0
    freed_bytes: int = 0


# Day (None: at once), rule, kind, effect, storage class, hold.
_Line = tuple[int | None, str, str, str, str, str]


@dataclass(slots=True)
class _Tally:
    """`day_of` gives the number of the day in which a time lies."""

    now_ns: int
    day_of: Callable[[int], int]
    keys: int = 0
    unresolved_keys: int = 0
    lines: dict[_Line, _Count] = field(default_factory=dict)
    seen: Amount = field(default_factory=Amount)
    later: Amount = field(default_factory=Amount)
    never: Amount = field(default_factory=Amount)

    def add(self, items: Iterable[Version | Upload], forecast: Forecast) -> None:
        _add(self.seen, items)
        _add(self.later, forecast.later)
        _add(self.never, forecast.never)
        for entry in forecast.actions:
            line = self.lines.setdefault(self._line(entry), _Count())
            line.count += 1
            line.bytes += entry.size
            line.freed_bytes += entry.freed

    def _line(self, entry: ForecastAction) -> _Line:
        planned = entry.planned
        day = None if entry.at_ns == self.now_ns else self.day_of(entry.at_ns)
        hold = planned.hold.value if planned.hold is not None else ""
        return day, planned.rule_id, planned.kind.value, planned.effect.value, planned.storage_class, hold

    def actions(self, day: int | None) -> list[SimulatedActions]:
        return [
            SimulatedActions(
                rule_id=rule_id,
                kind=kind,
                action=effect,
                storage_class=storage_class,
                held=hold,
                count=count.count,
                bytes=count.bytes,
                freed_bytes=count.freed_bytes,
            )
            for (found, rule_id, kind, effect, storage_class, hold), count in sorted(
                self.lines.items(), key=lambda item: item[0][1:]
            )
            if found == day
        ]

    def days(self) -> list[int]:
        return sorted({line[0] for line in self.lines if line[0] is not None})


def _add(amount: Amount, items: Iterable[Version | Upload]) -> None:
    for item in items:
        if isinstance(item, Version):
            amount.versions += 1
            amount.bytes += item.size
        else:
            amount.uploads += 1


class Simulation:
    """The forecaster for the rules, the context and the moment of an evaluator."""

    def __init__(self, evaluator: ListingEvaluator, *, days: int, pass_at: PassAt) -> None:
        self._evaluator = evaluator
        self._day_ns = day_length_ns(evaluator.bucket_context.day_seconds)
        # Real days are those of the calendar; shorter ones are counted from the beginning.
        self._first_day_ns = 0 if evaluator.bucket_context.day_seconds == REAL_DAY_SECONDS else evaluator.now_ns
        self._until_ns = evaluator.now_ns + days * self._day_ns
        self._prefix = common_prefix(evaluator.rules.active())
        self._tag_filters = [
            without_tags(pair.rule.filter) for pair in evaluator.rules.active() if pair.rule.filter.tags
        ]
        self._foresight = Forecaster(
            evaluator.rules,
            evaluator.bucket_context,
            now_ns=evaluator.now_ns,
            until_ns=self._until_ns,
            pass_at=pass_at,
        )
        self._tally = _Tally(evaluator.now_ns, self._day_of)

    def run(self, progress: Progress) -> SimulationView:
        kinds = {pair.action.kind for pair in self._evaluator.rules.active()}
        is_complete = not kinds - {ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD} or self._look_at_versions(progress)
        if is_complete and ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD in kinds:
            self._look_at_uploads()
        return self._view(is_complete)

    def _look_at_versions(self, progress: Progress) -> bool:
        """Whether it came to the end."""
        tally, evaluator = self._tally, self._evaluator
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="simulate") as executor:
            for stretch in stretches(evaluator.store, evaluator.bucket, prefix=self._prefix):
                tally.unresolved_keys += sum(UNSHOWABLE in key for key in stretch.keys)
                clear = [(key, listed) for key, listed in stretch.keys.items() if UNSHOWABLE not in key]
                for versions, forecast in executor.map(self._looked_at, clear):
                    tally.add(versions, forecast)
                tally.keys += len(clear)
                if not progress(tally.keys):
                    return not stretch.next_marker
        return True

    def _looked_at(self, item: tuple[str, Sequence[ListedVersion]]) -> tuple[list[Version], Forecast]:
        """Tags and locks are asked for only where something depends on them."""
        key, listed = item
        evaluator = self._evaluator
        versions = [version_of(entry, evaluator.bucket_context.versioning) for entry in listed]
        asked = [self._needs_tags(key, version) for version in versions]
        versions = [
            evaluator.looked_into(key, version) if needed else version
            for version, needed in zip(versions, asked, strict=True)
        ]
        forecast = self._foresight.forecast(key, versions)
        if evaluator.locks and any(entry.planned.effect in _DESTROYS for entry in forecast.actions):
            versions = [
                version if done or version.is_marker else evaluator.looked_into(key, version)
                for version, done in zip(versions, asked, strict=True)
            ]
            forecast = self._foresight.forecast(key, versions)
        return versions, forecast

    def _needs_tags(self, key: str, version: Version) -> bool:
        return not version.is_marker and any(matches(found, key, version) for found in self._tag_filters)

    def _look_at_uploads(self) -> None:
        for page in upload_pages(self._evaluator.store, self._evaluator.bucket, prefix=self._prefix):
            for upload in page:
                found = upload_of(upload)
                self._tally.add([found], self._foresight.forecast(upload.key, [], [found]))

    def _day_of(self, moment_ns: int) -> int:
        return (moment_ns - self._first_day_ns) // self._day_ns

    def _view(self, is_complete: bool) -> SimulationView:
        tally, evaluator = self._tally, self._evaluator
        return SimulationView(
            bucket=evaluator.bucket,
            versioning=evaluator.bucket_context.versioning.value,
            at=moment_of(evaluator.now_ns),
            until=moment_of(self._until_ns),
            day_seconds=evaluator.bucket_context.day_seconds,
            prefix=self._prefix,
            keys=tally.keys,
            seen=tally.seen,
            at_once=tally.actions(None),
            days=[
                SimulatedDay(begins_at=moment_of(self._first_day_ns + day * self._day_ns), actions=tally.actions(day))
                for day in tally.days()
            ],
            later=tally.later,
            never=tally.never,
            unresolved_keys=tally.unresolved_keys,
            is_complete=is_complete,
        )
