"""The context of a bucket, on which decisions depend beside its rules. It is made here and nowhere else."""

from __future__ import annotations

from tidegate.core.lifecycle.assess import BucketContext
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.settings import LifecycleSettings


def context_of(
    settings: LifecycleSettings,
    versioning: Versioning,
    day_seconds: float,
    *,
    classes: tuple[str, ...],
    keeps_null_markers: bool,
) -> BucketContext:
    """`day_seconds` comes from `time_scale`: buckets may differ in it. `classes` are those that can be moved to."""
    return BucketContext(
        versioning=versioning,
        day_seconds=day_seconds,
        minimum_transition_bytes=settings.minimum_transition_bytes,
        classes=classes,
        keeps_null_markers=keeps_null_markers,
    )
