"""What became of pending deletes and of purged versions: the records of the deletion audit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from msgspec.structs import asdict, fields

from tidegate.core import codec
from tidegate.core.codec import JsonRecord
from tidegate.core.pending_deletes import PendingDelete

DELETION_AUDIT_TOPIC = "deletion-audit"

# The fields of a message that its record repeats.
_TOLD = (
    "component", "data_type", "pool", "bucket", "bucket_uid", "key", "version_id", "location", "data_key", "upload_id",
    "etag",
)  # fmt: skip
# Looked up once: that takes longer than all else about a message.
_REQUIRED = tuple(field.name for field in fields(PendingDelete) if field.required)


class DeletionOutcome(StrEnum):
    """How it ended. `IN_USE`, `NOT_MATCHED`, `NOT_THERE` and `INCOMPLETE` are not tried again: trying would change
    nothing. `GIVEN_UP` is a dead letter. `FAILED` is a version that a purge could not delete."""

    DELETED = "deleted"
    IN_USE = "in-use"
    NOT_MATCHED = "not-matched"
    NOT_THERE = "not-there"
    INCOMPLETE = "incomplete"
    GIVEN_UP = "given-up"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class IncompletePending:
    """A message that lacks fields of a pending delete, with those that it has."""

    values: dict[str, Any]
    missing: tuple[str, ...]

    def text(self, name: str) -> str:
        return str(self.values.get(name, ""))


def read_pending(data: bytes) -> PendingDelete | IncompletePending:
    """Raises `InvalidInput` where the message cannot be read at all, as one of a later version may be."""
    values = codec.decoded(data, dict[str, Any], "pending delete")
    absent = tuple(name for name in _REQUIRED if name not in values)
    if absent:
        return IncompletePending(values, absent)
    pending = PendingDelete.from_bytes(data)
    return IncompletePending(asdict(pending), pending.missing) if pending.missing else pending


@dataclass(frozen=True, slots=True)
class DeletionRecord(JsonRecord):
    """What, whose, where, by which identity, and what became of it. `why` is the reason that the message names, and
    `detail` explains the outcome. `origin` is where the message stands."""

    at_ns: int
    outcome: DeletionOutcome
    component: str
    data_type: str
    pool: str
    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    location: str = ""
    data_key: str = ""
    upload_id: str = ""
    etag: str = ""
    why: str = ""
    detail: str = ""
    worker: str = ""
    origin: str = ""

    @classmethod
    def of(
        cls,
        pending: PendingDelete | IncompletePending,
        outcome: DeletionOutcome,
        detail: str,
        *,
        at_ns: int,
        worker: str,
        origin: str,
    ) -> Self:
        message = pending if isinstance(pending, IncompletePending) else IncompletePending(asdict(pending), ())
        told = {name: message.text(name) for name in _TOLD}
        why = message.text("reason")
        return cls(at_ns, outcome, **told, why=why, detail=detail, worker=worker, origin=origin)
