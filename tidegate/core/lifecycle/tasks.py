"""The messages between the roles of lifecycle: tasks for objects, outcomes, and the audit trail.

The shape (`action`, `target`, `details`) is Backbeat's; Tidegate adds to `details` what a worker needs to act
conditionally and what an operator needs to understand it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple, Self, TypeVar

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.decide import Planned
from tidegate.core.lifecycle.rules import ActionKind

OBJECT_TASKS_TOPIC = "backbeat-lifecycle-object-tasks"
AUDIT_TOPIC = "lifecycle-audit"


class Outcome(StrEnum):
    """How an object task ended. Only what is settled lets a cursor move on."""

    DONE = "DONE"
    NOOP_RESOLVED = "NOOP_RESOLVED"
    SKIPPED_OBJECT_LOCK = "SKIPPED_OBJECT_LOCK"
    RETRY_LATER = "RETRY_LATER"
    BLOCKED = "BLOCKED"
    STOPPED = "STOPPED"

    @property
    def is_settled(self) -> bool:
        return self in (Outcome.DONE, Outcome.NOOP_RESOLVED, Outcome.SKIPPED_OBJECT_LOCK)


class Stale(StrEnum):
    """Why a task no longer holds when its turn comes: the reason in the record of its `NOOP_RESOLVED`.

    Such a task settles nothing. Another rule may ask for the same object, and what was changed may be changed back: the
    next pass judges anew.
    """

    RULE = "rule changed"
    TAGS = "tags changed"
    NEWER = "newer versions gone"


@dataclass(frozen=True, slots=True)
class ObjectTask:
    """One action on one version or upload.

    `last_modified` is the store's own text for the version's time, `etag` and `size` complete its identity: the
    action is void for anything else that is found under the key. `created_ns` is the log's time of the same. Days are
    counted from `since_ns`: the version's creation or, for a noncurrent one, that of its successor.
    """

    effect: Effect
    owner: str
    bucket: str
    key: str
    version_id: str
    bucket_uid: str
    pass_id: str
    kind: ActionKind
    rule_id: str
    action_id: str
    due_ns: int
    became_due_ns: int
    since_ns: int = 0
    created_ns: int = 0
    last_modified: str = ""
    etag: str = ""
    size: int | None = None
    storage_class: str = ""
    upload_id: str = ""

    @classmethod
    def of(
        cls,
        planned: Planned,
        *,
        owner: str,
        bucket: str,
        bucket_uid: str,
        pass_id: str,
        created_ns: int = 0,
        last_modified: str = "",
        etag: str = "",
        size: int | None = None,
    ) -> Self:
        return cls(
            effect=planned.effect,
            owner=owner,
            bucket=bucket,
            key=planned.key,
            version_id=planned.version_id,
            bucket_uid=bucket_uid,
            pass_id=pass_id,
            kind=planned.kind,
            rule_id=planned.rule_id,
            action_id=planned.action_id,
            due_ns=planned.due_ns,
            became_due_ns=planned.became_due_ns,
            since_ns=planned.since_ns,
            created_ns=created_ns,
            last_modified=last_modified,
            etag=etag,
            size=size,
            storage_class=planned.storage_class,
            upload_id=planned.upload_id,
        )

    def to_bytes(self) -> bytes:
        target = {written: getattr(self, name) for written, name in _OBJECT_TARGET.items()}
        return _message(self.effect.value, target, _present(self, _OBJECT_DETAILS))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        action, values = _values(data, _OBJECT_TARGET, _OBJECT_DETAILS)
        return _built(cls, {**values, "effect": action})


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """What was done to an object, under which rule, to which identity, and how it ended.

    `origin` is where the task stood (topic/partition/offset): one task leaves one record.
    """

    at_ns: int
    task: ObjectTask
    outcome: Outcome
    reason: str = ""
    worker: str = ""
    origin: str = ""

    def to_json(self) -> str:
        return _compact_json(
            {
                **_task_values(self.task),
                "at_ns": self.at_ns,
                "outcome": self.outcome,
                "reason": self.reason,
                "worker": self.worker,
                "origin": self.origin,
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        try:
            values = json.loads(text)
            task = _built(ObjectTask, {name: values[name] for name in ObjectTask.__slots__})
            outcome, origin = Outcome(values["outcome"]), values.get("origin", "")
            return cls(values["at_ns"], task, outcome, values["reason"], values["worker"], origin)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput(f"not an audit record of lifecycle: {error!r}") from None


class Ended(NamedTuple):
    """What a pass must know of an audit record. It reads all of its own, and this takes half as long as the whole."""

    pass_id: str
    bucket: str
    bucket_uid: str
    key: str
    became_due_ns: int
    outcome: Outcome
    reason: str = ""

    @property
    def is_settled(self) -> bool:
        return self.outcome.is_settled and self.reason not in _STALE

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        try:
            values = json.loads(text)
            return cls(
                values["pass_id"],
                values["bucket"],
                values["bucket_uid"],
                values["key"],
                values["became_due_ns"],
                Outcome(values["outcome"]),
                values["reason"],
            )
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput(f"not an audit record of lifecycle: {error!r}") from None


_STALE = frozenset(Stale)
_Task = TypeVar("_Task")
_REQUIRED = frozenset(field.name for field in fields(ObjectTask) if field.default is MISSING)
_compact_json = json.JSONEncoder(separators=(",", ":")).encode

# Names in the messages, and those of the fields here.
_OBJECT_TARGET = {"owner": "owner", "bucket": "bucket", "key": "key", "version": "version_id"}
_OBJECT_DETAILS = {
    "bucketUid": "bucket_uid",
    "passId": "pass_id",
    "kind": "kind",
    "ruleId": "rule_id",
    "actionId": "action_id",
    "dueAtNs": "due_ns",
    "becameDueAtNs": "became_due_ns",
    "sinceNs": "since_ns",
    "createdAtNs": "created_ns",
    "lastModified": "last_modified",
    "etag": "etag",
    "size": "size",
    "storageClass": "storage_class",
    "uploadId": "upload_id",
}


def _present(task: ObjectTask, names: Mapping[str, str]) -> dict[str, Any]:
    """The details that are set; optional ones that are not are left out, as in the original messages."""
    details = {}
    for written, name in names.items():
        value = getattr(task, name)
        if name in _REQUIRED or (value != "" and value is not None):
            details[written] = value
    return details


def _task_values(task: ObjectTask) -> dict[str, Any]:
    """As `dataclasses.asdict` has them, which takes ten times as long: its values are all plain."""
    return {name: getattr(task, name) for name in ObjectTask.__slots__}


def _message(action: str, target: dict[str, Any], details: dict[str, Any]) -> bytes:
    return _compact_json({"action": action, "target": target, "details": details}).encode()


def _values(data: bytes, target: Mapping[str, str], details: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """The action and the fields of a message; details that a newer version has added are ignored."""
    try:
        message = json.loads(data)
        found = {name: message["target"][written] for written, name in target.items()}
        given = message.get("details", {})
        found |= {name: given[written] for written, name in details.items() if written in given}
        return message["action"], found
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput(f"not a lifecycle task: {error!r} in {data[:200]!r}") from None


def _built(cls: type[_Task], values: dict[str, Any]) -> _Task:
    try:
        for name, enumeration in (("effect", Effect), ("kind", ActionKind)):
            if name in values:
                values[name] = enumeration(values[name])
        return cls(**values)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"not a lifecycle task: {error!r}") from None
