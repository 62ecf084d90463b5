"""The part of the HTTP API that moves data to locations and back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from tidegate.movement.moves import Moves, MoveView
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.service import OfRequest

router = APIRouter(prefix="/api/v1", dependencies=[Depends(require_token)], responses=ERRORS, tags=["moves"])


class NewMove(BaseModel):
    model_config = ConfigDict(extra="forbid")

    bucket: str = Field(max_length=255)
    prefix: str = Field("", max_length=1024, description="Only keys that begin with it.")
    to: str = Field("", max_length=24, description="The location to which the data goes.")
    back: bool = Field(False, description="Back into the pool's own store, in place of `to`.")
    versions: bool = Field(False, description="Noncurrent versions, too.")
    dry_run: bool = Field(False, description="Only count what would be moved.")


def moves_of(service: OfRequest) -> Moves:
    return Moves(service.tables, service.locations.all)


_Moves = Annotated[Moves, Depends(moves_of)]


@router.get("/moves", summary="The newest moves, the oldest of them first")
def list_moves(moves: _Moves, limit: Annotated[int, Query(ge=1, le=500)] = 20) -> list[MoveView]:
    return moves.newest(limit)


@router.post("/moves", summary="Ask for a move to a location, or back", status_code=202)
def start_move(moves: _Moves, new: NewMove) -> MoveView:
    return moves.start(new.bucket, new.prefix, to=new.to, back=new.back, versions=new.versions, dry_run=new.dry_run)


@router.get("/moves/{move_id}", summary="How far a move is, or how it ended")
def show_move(moves: _Moves, move_id: str) -> MoveView:
    return moves.show(move_id)
