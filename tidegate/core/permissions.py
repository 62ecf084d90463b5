"""May this operation be done, by this key or by nobody in particular?"""

from __future__ import annotations

from tidegate.core.operations import Operation
from tidegate.core.records import BucketPolicy, KeyPolicy


def allowed(operation: Operation, *, key_policy: KeyPolicy | None, bucket_policy: BucketPolicy | None) -> bool:
    """With a key (of the bucket's pool) its policy alone decides; without one the bucket's policy alone does."""
    if key_policy is not None:
        return _allowed_with_key(operation, key_policy)
    return bucket_policy is not None and _allowed_to_all(operation, bucket_policy)


def _allowed_with_key(operation: Operation, policy: KeyPolicy) -> bool:
    if policy is KeyPolicy.READWRITE:
        return True
    if policy is KeyPolicy.READONLY:
        return not operation.writes
    return not operation.reads


def _allowed_to_all(operation: Operation, policy: BucketPolicy) -> bool:
    if not operation.anonymous:
        return False
    if policy is BucketPolicy.PUBLIC:
        return True
    if policy is BucketPolicy.DOWNLOAD:
        return not operation.writes
    if policy is BucketPolicy.UPLOAD:
        return not operation.reads
    # Under the policy none only a browser's preflight is left, which comes without a key before a signed request.
    return not operation.reads and not operation.writes
