"""The pause of a site as a value: `rz:SITE` in the tables. A paused site gets nothing; what is for it waits."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.codec import JsonRecord

PAUSES = "rz:"


@dataclass(frozen=True, slots=True)
class Pause(JsonRecord):
    """Both are Unix times. Without `resume_at` the site is paused until it is resumed."""

    paused_at: float
    resume_at: float | None = None

    def holds(self, now: float) -> bool:
        return self.resume_at is None or now < self.resume_at


def entry_of(site: str) -> str:
    return PAUSES + site
