"""The part of the HTTP API that shows deletion, sees to its dead letters and purges buckets."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from tidegate.movement.deletion_queries import (
    DeadLetterView,
    DeletionDesk,
    DeletionRecordView,
    DeletionStatusView,
    PurgeView,
)
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.lifecycle import stores_of
from tidegate.web.service import OfRequest

router = APIRouter(prefix="/api/v1", dependencies=[Depends(require_token)], responses=ERRORS, tags=["deletion"])


class WhatToPurge(BaseModel):
    model_config = ConfigDict(extra="forbid")

    confirm: str = Field("", max_length=255, description="The bucket's name once more, unless it is a dry run.")
    prefix: str = Field("", max_length=1024, description="Only keys that begin with this.")
    dry_run: bool = Field(False, description="Only count: nothing is deleted.")


def _desk_of(service: OfRequest) -> DeletionDesk:
    return DeletionDesk(service.tables, service.topics, service.settings)


_Desk = Annotated[DeletionDesk, Depends(_desk_of)]


@router.get("/deletion", summary="Deletes that are pending, that wait for a retry, and that were given up")
def deletion_status(desk: _Desk) -> DeletionStatusView:
    return desk.status()


@router.get("/deletion/history", summary="What was deleted: the newest records, the oldest of them first")
def deletion_history(
    desk: _Desk,
    bucket: Annotated[str, Query(max_length=255)] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> list[DeletionRecordView]:
    return desk.history(bucket=bucket, count=limit)


@router.get("/deletion/dead", summary="Deletes that were given up, the oldest first, and why")
def dead_letters(desk: _Desk, limit: Annotated[int, Query(ge=1, le=10_000)] = 100) -> list[DeadLetterView]:
    return desk.dead(count=limit)


@router.get("/deletion/dead/{letter_id}", summary="One of them, with the message")
def dead_letter(desk: _Desk, letter_id: str) -> DeadLetterView:
    return desk.show(letter_id)


@router.post("/deletion/dead/{letter_id}/retry", summary="Send it back to be carried out")
def retry_dead_letter(desk: _Desk, letter_id: str) -> DeadLetterView:
    return desk.retry(letter_id)


@router.delete("/deletion/dead/{letter_id}", summary="Discard it; its data stays where it is", status_code=204)
def discard_dead_letter(desk: _Desk, letter_id: str) -> None:
    desk.discard(letter_id)


@router.post("/buckets/{name}/purge", summary="Delete all that a bucket holds; answered when that is done")
def purge_bucket(service: OfRequest, desk: _Desk, name: str, what: WhatToPurge) -> PurgeView:
    bucket = service.registry.bucket(name)
    stores = partial(stores_of, service)
    return desk.purge(bucket, stores, service.locations, prefix=what.prefix, dry_run=what.dry_run, confirm=what.confirm)
