"""The lifecycle page: buckets with rules, passes, and what was done. It shows names, and so asks for the token.

The status page, which everybody may see, has an overview without names.
"""

from __future__ import annotations

from html import escape

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from tidegate.lifecycle.buckets.time_scale import demo_day_seconds
from tidegate.lifecycle.queries.inspection import AuditView, LifecycledBucketView
from tidegate.lifecycle.queries.pass_inspection import CurrentPassView, PassInspector, PassProgressView, PassView
from tidegate.web.access import require_token_of_reader
from tidegate.web.layout import page, section, shown_time, table
from tidegate.web.lifecycle import control_of, inspector_of, passes_of
from tidegate.web.service import OfRequest, Service

_PASSES = 10
_RECORDS = 20
_REFRESH_SECONDS = 5

router = APIRouter(include_in_schema=False)


@router.get("/lifecycle", dependencies=[Depends(require_token_of_reader)])
def lifecycle_page(service: OfRequest) -> HTMLResponse:
    inspector, passes = inspector_of(service), passes_of(service)
    current = passes.current()
    content = (
        _demo(service)
        + _warnings(service, with_names=True)
        + section("Now", _now(current.running) + _waiting(current))
        + section("Buckets with rules", _buckets(inspector.buckets()))
        + section("Passes", _history(passes, with_names=True))
        + section("What was done", _records(inspector.audit(count=_RECORDS)))
    )
    return page("Lifecycle", content, refresh_seconds=_REFRESH_SECONDS)


def overview(service: Service) -> str:
    """For the status page: no names."""
    passes = passes_of(service)
    link = '<p><a href="/lifecycle">Buckets, passes and what was done</a>; the password is the admin token.</p>'
    running = _now(passes.current().running)
    told = _warnings(service, with_names=False) + running + _history(passes, with_names=False) + link
    return _demo(service) + section("Lifecycle", told)


def _demo(service: Service) -> str:
    seconds = demo_day_seconds(service.tables, service.settings.lifecycle)
    if seconds is None:
        return ""
    return f"<p class=warning>The demo is on: a day in the pool demo lasts {seconds:g} seconds.</p>"


def _warnings(service: Service, *, with_names: bool) -> str:
    """Warnings: each says what stops rules from being carried out."""
    state = control_of(service).state()
    told = [] if state.enabled else ["Lifecycle is switched off."]
    if state.stopped_since is not None:
        told.append(f"Lifecycle is stopped since {shown_time(state.stopped_since)}.")
    if with_names:
        told += [f"Lifecycle is stopped in bucket {stop.bucket}." for stop in state.stopped_buckets]
        told += [f"No pass begins on {name}: {problem}." for name, problem in state.clock_problems.items()]
    elif state.clock_problems:
        told.append("No pass begins: a clock is not believed.")
    return "".join(f"<p class=warning>{escape(text)}</p>" for text in told)


def _now(running: PassProgressView | None) -> str:
    if running is None:
        return "<p>No pass runs.</p>"
    actions = f", {running.finished:,} of {running.planned:,} actions finished" if running.planned else ""
    since, buckets = shown_time(running.since), f"{running.buckets:,} buckets"
    return f"<p>A pass is <b>{escape(running.stage)}</b> since {since}: {buckets}{actions}.</p>"


def _waiting(current: CurrentPassView) -> str:
    return f"<p>{len(current.waiting):,} more are asked for.</p>" if current.waiting else ""


def _buckets(views: list[LifecycledBucketView]) -> str:
    rows = [(view.bucket, view.pool, view.owner, f"{view.rules:,}") for view in views]
    return table(("Bucket", "Pool", "Owner", "Rules"), rows, "No bucket has lifecycle rules that are enabled.")


def _history(passes: PassInspector, *, with_names: bool) -> str:
    views = reversed(passes.history(_PASSES))
    titles = ("Began", "Took", "Engine", "Why", "Status", "Buckets", "Planned", "Outcomes")
    rows = [(*_cells(view), *((_told(view),) if with_names else ())) for view in views]
    return table((*titles, "Remarks") if with_names else titles, rows, "No pass has run yet.")


def _cells(view: PassView) -> tuple[str, ...]:
    took = f"{(view.ended_at - view.now).total_seconds():.1f} s" if view.ended_at is not None else ""
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(view.outcomes.items()))
    why = f"{view.trigger}{', dry run' if view.dry_run else ''}"
    return shown_time(view.now), took, view.engine, why, view.status, f"{view.buckets:,}", f"{view.planned:,}", outcomes


def _told(view: PassView) -> str:
    told = [view.problem] if view.problem else []
    for detail in view.details:
        words = [f"{reason} in {shards} shards" for reason, shards in sorted(detail.recoveries.items())]
        words += [detail.problem] if detail.problem else []
        told += [f"{detail.bucket}: {', '.join(words)}"] if words else []
    return "; ".join(told)


def _records(views: list[AuditView]) -> str:
    rows = [
        (
            shown_time(view.at),
            view.bucket,
            view.key,
            view.version_id,
            view.action,
            view.rule_id,
            view.outcome,
            view.reason,
        )
        for view in reversed(views)
    ]
    titles = ("When", "Bucket", "Key", "Version", "Action", "Rule", "Outcome", "Reason")
    return table(titles, rows, "Lifecycle has done nothing yet.")
