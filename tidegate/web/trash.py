"""The part of the HTTP API that says how long deleted objects are kept, and brings them back."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from tidegate.administration import seconds_of
from tidegate.movement.graces import Graces, GraceView
from tidegate.movement.undelete import Selection, UndeleteView, undelete
from tidegate.settings import LONGEST_GRACE_DAYS
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.lifecycle import stores_of
from tidegate.web.service import OfRequest

router = APIRouter(prefix="/api/v1", dependencies=[Depends(require_token)], responses=ERRORS, tags=["deletion"])


class NewGrace(BaseModel):
    model_config = ConfigDict(extra="forbid")

    days: float | None = Field(
        ge=0, le=LONGEST_GRACE_DAYS, description="0: nothing is kept; null: it has no grace of its own any more."
    )


class WhatToUndelete(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prefix: str = Field("", max_length=1024, description="Only keys that begin with this.")
    since: datetime | None = Field(None, description="Only what was deleted since then.")
    pass_id: str = Field("", max_length=255, description="Only what this pass of lifecycle has deleted.")
    dry_run: bool = Field(False, description="Only count: nothing is brought back.")


@router.get("/deletion/grace", summary="How long what is deleted for good can be brought back")
def graces(service: OfRequest) -> GraceView:
    return Graces(service.tables, service.settings.deletion).view()


@router.put("/pools/{name}/grace", summary="Give a pool a grace of its own")
def set_grace_of_pool(service: OfRequest, name: str, new: NewGrace) -> GraceView:
    found = Graces(service.tables, service.settings.deletion)
    found.set_of_pool(service.registry.pool(name), new.days)
    return found.view()


@router.put("/buckets/{name}/grace", summary="Give a bucket a grace of its own")
def set_grace_of_bucket(service: OfRequest, name: str, new: NewGrace) -> GraceView:
    found = Graces(service.tables, service.settings.deletion)
    found.set_of_bucket(service.registry.bucket(name), new.days)
    return found.view()


@router.post("/buckets/{name}/undelete", summary="Bring back deleted objects; answered when that is done")
def undelete_objects(service: OfRequest, name: str, what: WhatToUndelete) -> UndeleteView:
    selection = Selection(what.prefix, seconds_of(what.since) or 0.0, what.pass_id)
    bucket = service.registry.bucket(name)
    return undelete(service.tables, bucket, partial(stores_of, service), selection, dry_run=what.dry_run)
