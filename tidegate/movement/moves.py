"""What operators see of moves and ask of them, the same for the HTTP API and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, Field

from tidegate.core.errors import InvalidInput, NotFound
from tidegate.core.locations import STANDARD, Location
from tidegate.core.records import Bucket
from tidegate.movement.move_records import Move, MoveRecords
from tidegate.ports import Tables
from tidegate.views import filled

_POLL_SECONDS = 0.2
SCHEME = "s3://"


class MoveView(BaseModel):
    """A move that an operator asked for."""

    id: str
    bucket: str
    prefix: str
    location: str = Field(description="Where it goes; empty: back to the pool's own store.")
    back: bool
    versions: bool = Field(description="Whether noncurrent versions move, too.")
    dry_run: bool
    status: str = Field(examples=["moving"], description="listing, moving or done.")
    began_at: datetime
    ended_at: datetime | None
    total: int = Field(description="Versions to move that were found so far.")
    bytes: int = Field(description="Their size.")
    moved: int
    failed: int
    unchanged: int = Field(description="Versions that lay there already, or were changed or deleted meanwhile.")
    reasons: list[str] = Field(description="Of the first failures.")
    problem: str = Field(description="What keeps it from going on; empty: nothing.")


@dataclass(frozen=True, slots=True)
class Moves:
    """`locations` gives those that there are."""

    tables: Tables
    locations: Callable[[], Sequence[Location]]

    def start(
        self, bucket: str, prefix: str = "", *, to: str = "", back: bool = False, versions: bool = False, dry_run: bool
    ) -> MoveView:
        if bool(to) is back:
            raise InvalidInput("say where to: either the name of a location, or back to the pool's own store")
        text = self.tables.get(Bucket.PREFIX + bucket)
        if text is None:
            raise NotFound(f"there is no bucket {bucket}")
        move = Move(
            id=Move.new_id(time.time()),
            bucket=bucket,
            bucket_uid=Bucket.from_json(text).uid,
            prefix=prefix,
            location=to,
            storage_class=STANDARD if back else self._class_of(to),
            began_at=time.time(),
            back=back,
            versions=versions,
            dry_run=dry_run,
        )
        MoveRecords(self.tables).begin(move)
        return self.show(move.id)

    def _class_of(self, name: str) -> str:
        location = next((each for each in self.locations() if each.name == name), None)
        if location is None:
            raise NotFound(f"there is no location {name}; `tidegate location list` shows those that there are")
        return location.storage_classes[0] if location.storage_classes else location.name

    def show(self, move_id: str) -> MoveView:
        records = MoveRecords(self.tables)
        return _view(records, records.get(move_id))

    def newest(self, count: int) -> list[MoveView]:
        records = MoveRecords(self.tables)
        return [_view(records, move) for move in records.newest(count)]

    def wait(self, move_id: str, watch: Callable[[MoveView], None]) -> MoveView:
        """Until it has ended; `watch` is shown how far it has come, and may raise."""
        while (view := self.show(move_id)).ended_at is None:
            watch(view)
            time.sleep(_POLL_SECONDS)
        return view


def parse_target(text: str) -> tuple[str, str]:
    """Bucket and prefix of `s3://BUCKET/PREFIX`."""
    bucket, _, prefix = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or not bucket:
        raise InvalidInput(f"{text!r} names no objects: use s3://BUCKET/PREFIX")
    return bucket, prefix


def _view(records: MoveRecords, move: Move) -> MoveView:
    tally = records.tally(move)
    status = "listing" if not move.is_listed else "moving" if move.ended_at is None else "done"
    return filled(
        MoveView,
        move,
        status="done" if move.ended_at is not None else status,
        moved=tally.moved,
        failed=tally.failed,
        unchanged=tally.unchanged,
        reasons=list(tally.reasons),
    )
