"""Pausing and resuming sites. The replicators look at it about every half second."""

from __future__ import annotations

from tidegate.core.replication.pauses import PAUSES, Pause, entry_of
from tidegate.ports import Tables
from tidegate.table_pages import every

# How often replicators look whether their site is paused.
LOOK_SECONDS = 0.5


def pause(tables: Tables, site: str, *, now: float, resume_at: float | None = None) -> Pause:
    """Until `resume_at` (Unix time), or until it is resumed."""
    found = Pause(now, resume_at)
    if found.holds(now):
        tables.put(entry_of(site), found.to_json(), expires_in=None if resume_at is None else resume_at - now)
    else:
        resume(tables, site)
    return found


def resume(tables: Tables, site: str) -> bool:
    """True if it was paused."""
    return tables.delete(entry_of(site))


def resume_later(tables: Tables, site: str, *, now: float, resume_at: float) -> Pause | None:
    """Has a paused site resume at that moment; None if it is not paused."""
    found = current(tables, site, now=now)
    if found is None:
        return None
    changed = Pause(found.paused_at, resume_at)
    if not changed.holds(now):
        resume(tables, site)
        return changed
    is_set = tables.compare_and_set(entry_of(site), found.to_json(), changed.to_json(), expires_in=resume_at - now)
    return changed if is_set else resume_later(tables, site, now=now, resume_at=resume_at)


def current(tables: Tables, site: str, *, now: float) -> Pause | None:
    """The pause that holds now."""
    text = tables.get(entry_of(site))
    found = Pause.from_json(text) if text is not None else None
    return found if found is not None and found.holds(now) else None


def all_paused(tables: Tables, *, now: float) -> dict[str, Pause]:
    """By site."""
    found = {entry.removeprefix(PAUSES): Pause.from_json(text) for entry, text in every(tables, PAUSES)}
    return {site: pause for site, pause in found.items() if pause.holds(now)}
