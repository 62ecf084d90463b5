"""The replication page: sites, what has failed, and what was tried again. It shows names, and so asks for the token."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from tidegate.core.replication.records import Status
from tidegate.replication.desk import HistoryView, SiteStatusView, view_site
from tidegate.replication.failures import Failure, FailureReader, Selection
from tidegate.web.access import require_token_of_reader
from tidegate.web.crr import desk_of
from tidegate.web.layout import page, section, shown_time, table
from tidegate.web.service import OfRequest, Service

_FAILURES, _RECORDS = 10, 20
_REFRESH_SECONDS = 5

router = APIRouter(include_in_schema=False)


@router.get("/replication", dependencies=[Depends(require_token_of_reader)])
def replication_page(service: OfRequest) -> HTMLResponse:
    now = time.time()
    failures = FailureReader(service.tables).page(Selection(), most=_FAILURES)
    content = (
        _warning(service)
        + section("Sites", _sites(_views(service, now), now))
        + section("Failures", _failures(failures.failures, is_all=not failures.next_marker))
        + section("What failed, and was tried once more", _history(desk_of(service).history(count=_RECORDS)))
    )
    return page("Replication", content, refresh_seconds=_REFRESH_SECONDS)


def _warning(service: Service) -> str:
    if service.settings.replication.enabled:
        return ""
    return "<p class=warning>Replication is switched off: what is to be replicated waits.</p>"


def _views(service: Service, now: float) -> list[SiteStatusView]:
    """All sites to which something is replicated; the figures are those of the gauges."""
    figures = service.replication.figures(now=now)
    paused = desk_of(service).paused(figures, now=now)
    return [view_site(figures[site], paused[site]) for site in sorted(figures)]


def _sites(views: list[SiteStatusView], now: float) -> str:
    rows = [
        (
            view.site,
            _state(view),
            f"{view.pending:,}",
            f"{view.completed:,}",
            f"{view.failed:,}",
            _age(view.oldest_pending_at, now),
        )
        for view in views
    ]
    titles = ("Site", "State", "Pending", "Completed", "Failed", "Oldest pending version")
    return table(titles, rows, "No bucket has replication rules yet.")


def _state(view: SiteStatusView) -> str:
    if not view.paused:
        return "replicating"
    return "paused" if view.resume_at is None else f"paused until {shown_time(view.resume_at)}"


def _age(moment: datetime | None, now: float) -> str:
    if moment is None:
        return "none"
    seconds = max(0, int(now - moment.timestamp()))
    for name, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:,} {name} ago"
    return f"{seconds} s ago"


def _failures(failures: tuple[Failure, ...], *, is_all: bool) -> str:
    rows = [
        (
            shown_time(datetime.fromtimestamp(failure.state.since, UTC)),
            failure.failed.site,
            failure.failed.bucket,
            failure.failed.key,
            failure.failed.version_id,
            f"{failure.record.size:,}",
            failure.state.reason,
        )
        for failure in failures
    ]
    titles = ("Since", "Site", "Bucket", "Key", "Version", "Bytes", "Why")
    more = "" if is_all else f"<p>These are the first {len(failures)}; there are more.</p>"
    hint = "<p><code>tidegate replication failed retry --all</code> tries all of them once more.</p>" if rows else ""
    return table(titles, rows, "Nothing has failed lately.") + more + hint


def _history(views: list[HistoryView]) -> str:
    rows = [
        (
            shown_time(view.at),
            "failed" if view.status == Status.FAILED else "retried",
            view.site,
            view.bucket,
            view.key,
            view.version_id,
            view.reason,
        )
        for view in reversed(views)
    ]
    titles = ("When", "What", "Site", "Bucket", "Key", "Version", "Why")
    return table(titles, rows, "Nothing has failed yet.")
