"""Passes: who may start one, and what is known of those that ran."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Self

from tidegate.core.errors import InvalidInput
from tidegate.pools.catalogue import every
from tidegate.ports import Tables

LOCK = "lifecycle/pass"
_REPORTS = "lifecycle/passes/"
_LISTING = "lifecycle/listing-pass"
_MOST_REPORTS = 500


@dataclass(frozen=True, slots=True)
class PassReport:
    """`now_ns` is the time at which everything is judged. `outcomes` counts actions when the pass has ended;
    `audit_ends` is where the audit trail stood when it began."""

    id: str
    engine: str
    trigger: str
    now_ns: int
    buckets: int
    audit_ends: list[int] = field(default_factory=list)
    ended_ns: int | None = None
    outcomes: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Fields that a newer version has added are ignored."""
        try:
            values = json.loads(text)
            return cls(**{name: values[name] for name in cls.__slots__ if name in values})
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"not a report of a pass: {error!r}") from None

    def ended(self, at_ns: int, outcomes: dict[str, int]) -> Self:
        return replace(self, ended_ns=at_ns, outcomes=outcomes)


def new_pass_id(now_ns: int) -> str:
    """Sorts by time; two passes never have the same."""
    stamp = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return f"{stamp}-{secrets.token_hex(3)}"


class PassReports:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def begin(self, report: PassReport) -> None:
        self._tables.put(_REPORTS + report.id, report.to_json())
        self._tables.put(_LISTING, report.to_json())
        self._prune()

    def running(self) -> PassReport | None:
        """The pass of the listing engine whose end was not noted down yet."""
        text = self._tables.get(_LISTING)
        return PassReport.from_json(text) if text is not None else None

    def end(self, report: PassReport) -> None:
        self._tables.put(_REPORTS + report.id, report.to_json())
        # The next pass may have begun already.
        begun = replace(report, ended_ns=None, outcomes={})
        self._tables.compare_and_set(_LISTING, begun.to_json(), None)

    def get(self, pass_id: str) -> PassReport | None:
        text = self._tables.get(_REPORTS + pass_id)
        return PassReport.from_json(text) if text is not None else None

    def all(self) -> list[PassReport]:
        """The oldest first."""
        return [PassReport.from_json(text) for _, text in every(self._tables, _REPORTS)]

    def _prune(self) -> None:
        """Keeps the newest."""
        keys = [key for key, _ in every(self._tables, _REPORTS)]
        for key in keys[:-_MOST_REPORTS]:
            self._tables.delete(key)


class PassLock:
    """Held by whoever starts or runs a pass. It expires unless it is renewed."""

    def __init__(self, tables: Tables, *, seconds: float) -> None:
        self._tables = tables
        self._seconds = seconds
        self._token = secrets.token_hex(16)

    def try_acquire(self) -> bool:
        return self._tables.put_if_absent(LOCK, self._token, expires_in=self._seconds)

    def renew(self) -> bool:
        """False when it was lost."""
        return self._tables.compare_and_set(LOCK, self._token, self._token, expires_in=self._seconds)

    def release(self) -> None:
        self._tables.compare_and_set(LOCK, self._token, None)
