"""One row of a plan: what it says of a version or upload, and of the action that is taken."""

from __future__ import annotations

from tidegate.core.version_attributes import VersionAttributes
from tidegate.pipeline.arrow_types import Int32


class PlanRow(VersionAttributes, frozen=True, kw_only=True):
    """`newest_due_ns` is when the last of the subject's actions that were looked for became due, whichever is taken."""

    bucket_uid: str
    bucket: str
    owner: str
    key: str
    version_id: str
    upload_id: str
    created_ns: int
    last_modified: str | None
    effect: str
    kind: str
    rule_id: str
    action_id: str
    due_ns: int
    became_due_ns: int
    since_ns: int
    storage_class: str
    hold: str | None
    newest_due_ns: int
    shard: Int32
