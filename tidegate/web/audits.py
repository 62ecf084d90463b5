"""The part of the HTTP API about audits of locations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from tidegate.movement.audits import LocationAudits, OrphanAuditView
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.service import OfRequest

router = APIRouter(prefix="/api/v1/audits", dependencies=[Depends(require_token)], responses=ERRORS, tags=["locations"])


class NewAudit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    location: str = Field(max_length=255)
    dry_run: bool = Field(False, description="Only tell what is found; no orphan is deleted.")


def audits_of(service: OfRequest) -> LocationAudits:
    return LocationAudits(service.tables, service.directory.path)


_Audits = Annotated[LocationAudits, Depends(audits_of)]


@router.post("", summary="Compare what lies in a location with what refers to it", status_code=202)
def submit_audit(service: OfRequest, audits: _Audits, new: NewAudit) -> OrphanAuditView:
    return audits.submit(service.locations, new.location, dry_run=new.dry_run)


@router.get("", summary="The newest audits, the oldest of them first")
def list_audits(audits: _Audits, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> list[OrphanAuditView]:
    return audits.history(limit)


@router.get("/{audit_id}", summary="One audit, with the first of what it found")
def show_audit(audits: _Audits, audit_id: str, entries: Annotated[int, Query(ge=0, le=1000)] = 0) -> OrphanAuditView:
    return audits.show(audit_id, entries=entries)
