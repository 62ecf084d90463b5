"""The messages between the roles of lifecycle: tasks for objects, outcomes, and the audit trail.

The shape (`action`, `target`, `details`) is Backbeat's; Tidegate adds to `details` what a worker needs to act
conditionally and what an operator needs to understand it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import asdict, fields

from tidegate.core import codec
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.decide import Planned
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.version_attributes import VersionAttributes

OBJECT_TASKS_TOPIC = "backbeat-lifecycle-object-tasks"
AUDIT_TOPIC = "lifecycle-audit"


class Outcome(StrEnum):
    """How an object task ended. Only what is settled lets a cursor move on."""

    DONE = "DONE"
    NOOP_RESOLVED = "NOOP_RESOLVED"
    SKIPPED_OBJECT_LOCK = "SKIPPED_OBJECT_LOCK"
    SKIPPED_REPLICATION = "SKIPPED_REPLICATION"
    RETRY_LATER = "RETRY_LATER"
    BLOCKED = "BLOCKED"
    STOPPED = "STOPPED"

    @property
    def is_settled(self) -> bool:
        return self in (Outcome.DONE, Outcome.NOOP_RESOLVED) or self.is_held

    @property
    def is_held(self) -> bool:
        """Whether it was left alone for a time: it is looked for again a day later."""
        return self in (Outcome.SKIPPED_OBJECT_LOCK, Outcome.SKIPPED_REPLICATION)


class Stale(StrEnum):
    """Why a task no longer holds when its turn comes: the reason in the record of its `NOOP_RESOLVED`.

    Such a task settles nothing. Another rule may ask for the same object, and what was changed may be changed back: the
    next pass judges anew.
    """

    RULE = "rule changed"
    TAGS = "tags changed"
    NEWER = "newer versions gone"


class ObjectTask(VersionAttributes, frozen=True):
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
    storage_class: str = ""
    upload_id: str = ""

    @classmethod
    def of(cls, planned: Planned, **context: Any) -> Self:
        """`context` is what the planned action does not say: whose it is, and what the version was found to be."""
        return cls(**{name: getattr(planned, name) for name in _OF_PLANNED}, **context)

    @property
    def unmodified_since(self) -> str:
        """For a task from the log, which does not know the store's time. A rewrite that the plan did not know of came
        after the action was due. The middle is the farthest from both, should the clocks of store and gateway differ.
        """
        since_ns = self.created_ns + max(max(self.due_ns, self.became_due_ns) - self.created_ns, 0) // 2
        return datetime.fromtimestamp(since_ns / 1_000_000_000, UTC).isoformat()

    def to_bytes(self) -> bytes:
        values = asdict(self)
        return codec.to_bytes(
            {
                "action": self.effect,
                "target": {written: values[name] for name, written in OBJECT_TARGET.items()},
                "details": {
                    written: value
                    for name, written in OBJECT_DETAILS.items()
                    if (value := values[name]) not in ("", None) or name in REQUIRED
                },
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        message = codec.decoded(data, _Message, _TASK)
        target, details = message.target, message.details
        values = {name: target[written] for name, written in OBJECT_TARGET.items() if written in target}
        values |= {name: details[written] for name, written in OBJECT_DETAILS.items() if written in details}
        return codec.converted({**values, "effect": message.action}, cls, _TASK)


class AuditRecord(Struct, frozen=True):
    """What was done to an object, under which rule, to which identity, and how it ended.

    `origin` is where the task stood (topic/partition/offset): one task leaves one record. Its JSON has the fields of
    the task beside its own.
    """

    at_ns: int
    task: ObjectTask
    outcome: Outcome
    reason: str = ""
    worker: str = ""
    origin: str = ""

    def to_json(self) -> str:
        values = asdict(self)
        return codec.to_bytes(asdict(values.pop("task")) | values).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        values = codec.decoded(text, dict[str, Any], _AUDIT_RECORD)
        values["task"] = codec.converted(values, ObjectTask, _AUDIT_RECORD)
        return codec.converted(values, cls, _AUDIT_RECORD)


class Ended(Struct, frozen=True):
    """What a pass must know of an audit record. It reads all of its own, and the rest is skipped."""

    effect: Effect
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
        return codec.decoded(text, cls, _AUDIT_RECORD)


_TASK, _AUDIT_RECORD = "lifecycle task", "audit record of lifecycle"
_STALE = frozenset(Stale)
_OF_PLANNED = [name for name in Planned.__slots__ if name in ObjectTask.__struct_fields__]

# The names that fields have in messages.
OBJECT_TARGET = {"owner": "owner", "bucket": "bucket", "key": "key", "version_id": "version"}
_NAMED_OTHERWISE = {"due_ns": "dueAtNs", "became_due_ns": "becameDueAtNs", "created_ns": "createdAtNs"}


def _detail_name(name: str) -> str:
    first, *others = name.split("_")
    return _NAMED_OTHERWISE.get(name) or first + "".join(map(str.capitalize, others))


OBJECT_DETAILS = {
    name: _detail_name(name) for name in ObjectTask.__struct_fields__ if name not in OBJECT_TARGET and name != "effect"
}
# Details that are always written. Others that are not set are left out, as in the original messages.
REQUIRED = frozenset(field.name for field in fields(ObjectTask) if field.required)


class _Message(Struct):
    action: str
    target: dict[str, Any]
    details: dict[str, Any] = {}
