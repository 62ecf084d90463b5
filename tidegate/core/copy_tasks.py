"""The messages of the data mover: copy the data of a version to a location, and what became of it.

The shape (`action`, `target`, `details`) is Backbeat's. A task names the topic to which its status goes, so that the
mover is bound to nobody: lifecycle has its own, and so have moves that an operator asks for.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import asdict, fields

from tidegate.core import codec
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC, ObjectTask

DATA_MOVER_TOPIC = "backbeat-data-mover"
COPY_ACTION = "copyLocation"

_TARGET = {"owner": "owner", "bucket": "bucket", "key": "key", "version_id": "version"}


class CopyTask(Struct, frozen=True, kw_only=True):
    """Copies one version to `location`; where none is named, to the one that serves the `storage_class`, and with
    `back` to the pool's own store. `etag`, `size` and `last_modified` (the store's text, as listings show it) are the
    identity that was judged; what is empty or None is not compared, and `unmodified_since` (ISO) stands in for a time
    that is not known. `request_id` is the pass or the move that asked for it. `object_task` is what lifecycle planned,
    if it was lifecycle."""

    owner: str
    bucket: str
    key: str
    version_id: str
    bucket_uid: str
    location: str
    storage_class: str
    results_topic: str
    request_id: str
    size: int | None = None
    etag: str = ""
    last_modified: str = ""
    unmodified_since: str = ""
    object_task: ObjectTask | None = None
    back: bool = False

    @classmethod
    def of(cls, task: ObjectTask) -> Self:
        """The copy that a transition needs. Its status comes back to lifecycle."""
        return cls(
            owner=task.owner,
            bucket=task.bucket,
            key=task.key,
            version_id=task.version_id,
            bucket_uid=task.bucket_uid,
            location="",
            storage_class=task.storage_class,
            results_topic=OBJECT_TASKS_TOPIC,
            request_id=task.pass_id,
            size=task.size,
            etag=task.etag,
            last_modified=task.last_modified,
            unmodified_since="" if task.last_modified else task.unmodified_since,
            object_task=task,
        )

    @property
    def id(self) -> str:
        """The same for every delivery of the task, and for one that was sent twice."""
        return sha256(self.to_bytes()).hexdigest()[:32]

    def to_bytes(self) -> bytes:
        return codec.to_bytes(_message(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return codec.converted(_values(data), cls, "task of the data mover")


# Looked up once: that takes longer than all else about a message.
_DETAILS = {field.name: field.required for field in fields(CopyTask) if field.name not in _TARGET}


class CopyResult(StrEnum):
    """`COPIED`: the copy is complete and was verified. `CHANGED`: what is there is not what was judged. `GONE`: nothing
    is there. `REFUSED`: it cannot be copied, and trying again changes nothing. `FAILED`: all tries were in vain."""

    COPIED = "copied"
    CHANGED = "changed"
    GONE = "gone"
    REFUSED = "refused"
    FAILED = "failed"


class CopyStatus(Struct, frozen=True, kw_only=True):
    """What became of a task. Of a copy that was made: where it lies, and the identity of what was copied."""

    task: CopyTask
    result: CopyResult
    reason: str = ""
    data_key: str = ""
    data_etag: str = ""
    etag: str = ""
    size: int = 0
    last_modified: str = ""

    def to_bytes(self) -> bytes:
        message = _message(self.task)
        message["status"] = {name: value for name, value in asdict(self).items() if name != "task"}
        return codec.to_bytes(message)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        status = codec.decoded(data, _Status, "status of the data mover").status
        return codec.converted({**status, "task": CopyTask.from_bytes(data)}, cls, "status of the data mover")


class _Message(Struct):
    action: str
    target: dict[str, Any]
    details: dict[str, Any] = {}


class _Status(Struct):
    status: dict[str, Any]


class _Action(Struct):
    action: str = ""


def action_of(data: bytes) -> str:
    """Which kind of message it is: topics of results carry other tasks, too."""
    return codec.decoded(data, _Action, "task").action


def _message(task: CopyTask) -> dict[str, Any]:
    values = asdict(task)
    return {
        "action": COPY_ACTION,
        "target": {written: values[name] for name, written in _TARGET.items()},
        "details": {
            name: values[name] for name, is_required in _DETAILS.items() if is_required or _is_told(values[name])
        },
    }


def _is_told(value: object) -> bool:
    return value not in ("", None) and value is not False


def _values(data: bytes) -> dict[str, Any]:
    message = codec.decoded(data, _Message, "task of the data mover")
    values = {name: message.target.get(written, "") for name, written in _TARGET.items()}
    return {"location": "", "storage_class": "", **message.details, **values}
