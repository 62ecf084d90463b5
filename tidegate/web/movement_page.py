"""The movement page: locations, moves, audits, and the deletion of data. It shows names, and so asks for the token."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from tidegate.movement.audits import LocationAudits, OrphanAuditView
from tidegate.movement.deletion_queries import DeadLetterView, DeletionDesk, DeletionRecordView
from tidegate.movement.location_views import LocationView, view_location
from tidegate.movement.moves import MoveView
from tidegate.web.access import require_token_of_reader
from tidegate.web.layout import page, section, shown_time, table
from tidegate.web.moves import moves_of
from tidegate.web.service import OfRequest

_MOVES, _AUDITS, _RECORDS, _LETTERS = 10, 5, 20, 10
_REFRESH_SECONDS = 5

router = APIRouter(include_in_schema=False)


@router.get("/movement", dependencies=[Depends(require_token_of_reader)])
def movement_page(service: OfRequest) -> HTMLResponse:
    locations = [view_location(service.locations, location) for location in service.locations.all()]
    desk = DeletionDesk(service.tables, service.topics, service.settings)
    audits = LocationAudits(service.tables, service.directory.path).history(_AUDITS)
    content = (
        section("Locations", _locations(locations))
        + section("Moves", _moves(moves_of(service).newest(_MOVES)))
        + section("Audits of locations", _audits(audits))
        + section("Deletion", _deletion(desk))
        + section("What was deleted", _records(desk.history(count=_RECORDS)))
    )
    return page("Movement", content, refresh_seconds=_REFRESH_SECONDS)


def _locations(views: list[LocationView]) -> str:
    rows = [(view.name, view.endpoint, view.bucket, view.prefix, ", ".join(view.storage_classes)) for view in views]
    empty = "There are no locations yet: tidegate location create makes one."
    return table(("Name", "Endpoint", "Bucket", "Prefix", "Storage classes"), rows, empty)


def _moves(views: list[MoveView]) -> str:
    rows = [
        (
            shown_time(view.began_at),
            f"s3://{view.bucket}/{view.prefix}",
            "back" if view.back else view.location,
            f"{view.status}{', dry run' if view.dry_run else ''}",
            f"{view.moved:,} of {view.total:,}",
            f"{view.failed:,}",
            f"{view.unchanged:,}",
        )
        for view in reversed(views)
    ]
    titles = ("Began", "What", "To", "Status", "Moved", "Failed", "Unchanged")
    return table(titles, rows, "Nobody has asked for a move yet.")


def _audits(views: list[OrphanAuditView]) -> str:
    rows = [
        (
            shown_time(view.requested_at),
            view.location,
            f"{view.status}{', dry run' if view.dry_run else ''}",
            f"{view.listed:,}",
            f"{view.orphans:,}",
            f"{view.missing:,}",
            view.problem,
        )
        for view in reversed(views)
    ]
    titles = ("Asked for", "Location", "Status", "Pieces of data", "Orphans", "Missing", "Problem")
    return table(titles, rows, "No location was audited yet.")


def _deletion(desk: DeletionDesk) -> str:
    status = desk.status()
    warning = "" if status.enabled else "<p class=warning>Deletion is switched off: pending deletes wait.</p>"
    told = f"<p>{status.in_flight:,} in flight, {status.retrying:,} of them retrying, {status.dead:,} given up.</p>"
    return warning + told + (_letters(desk.dead(count=_LETTERS)) if status.dead else "")


def _letters(views: list[DeadLetterView]) -> str:
    rows = [(view.id, view.bucket, view.key, view.location, view.reason) for view in views]
    return table(("Dead letter", "Bucket", "Key", "Location", "Why"), rows, "")


def _records(views: list[DeletionRecordView]) -> str:
    rows = [
        (
            shown_time(view.at),
            view.bucket,
            view.key,
            view.version_id,
            view.location or "own store",
            view.outcome,
            view.why,
        )
        for view in reversed(views)
    ]
    titles = ("When", "Bucket", "Key", "Version", "Where", "Outcome", "Why")
    return table(titles, rows, "No data was deleted yet.")
