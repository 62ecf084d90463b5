"""How long what is deleted for good can be brought back: by the settings, or otherwise for a pool or a bucket."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import BaseModel, Field

from tidegate.core.codec import JsonRecord
from tidegate.core.errors import InvalidInput
from tidegate.core.records import Bucket, Pool
from tidegate.ports import Tables
from tidegate.settings import LONGEST_GRACE_DAYS, DeletionSettings
from tidegate.table_pages import every

# Entries of the tables: `gr:pool:NAME` and `gr:bucket:UID`.
_OF_POOL = "gr:pool:"
_OF_BUCKET = "gr:bucket:"
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class _Grace(JsonRecord):
    name: str
    days: float


class GraceView(BaseModel):
    """How long what is deleted for good is kept."""

    days: float = Field(description="Of all for which nothing else is said; 0: nothing is kept.")
    trash_location: str = Field(description="Where it is kept.")
    pools: dict[str, float] = Field(description="Days of pools that have a grace of their own.")
    buckets: dict[str, float] = Field(description="Days of buckets that have a grace of their own.")


class Graces:
    """May be shared by threads."""

    def __init__(self, tables: Tables, settings: DeletionSettings) -> None:
        self._tables = tables
        self._settings = settings

    def seconds_of(self, bucket: Bucket) -> float:
        """The bucket's own grace, or that of its pool, or the one that is configured."""
        for entry in (_OF_BUCKET + bucket.uid, _OF_POOL + bucket.pool):
            text = self._tables.get(entry)
            if text is not None:
                return _Grace.from_json(text).days * _DAY_SECONDS
        return self._settings.grace_days * _DAY_SECONDS

    def set_of_pool(self, pool: Pool, days: float | None) -> None:
        """None: it has none of its own any more."""
        self._set(_OF_POOL + pool.name, pool.name, days)

    def set_of_bucket(self, bucket: Bucket, days: float | None) -> None:
        self._set(_OF_BUCKET + bucket.uid, bucket.name, days)

    def view(self) -> GraceView:
        return GraceView(
            days=self._settings.grace_days,
            trash_location=self._settings.trash_location,
            pools=self._named(_OF_POOL),
            buckets=self._named(_OF_BUCKET),
        )

    def _set(self, entry: str, name: str, days: float | None) -> None:
        if days is None:
            self._tables.delete(entry)
            return
        if not math.isfinite(days) or not 0 <= days <= LONGEST_GRACE_DAYS:
            raise InvalidInput(f"a grace has 0 to {LONGEST_GRACE_DAYS} days, not {days:g}")
        self._tables.put(entry, _Grace(name, days).to_json())

    def _named(self, prefix: str) -> dict[str, float]:
        found = (_Grace.from_json(text) for _, text in every(self._tables, prefix))
        return {grace.name: grace.days for grace in found}
