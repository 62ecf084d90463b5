"""How often a version is tried at a site, and how long that can take."""

from __future__ import annotations

from tidegate.settings import Settings
from tidegate.workers.retry_policy import RetryPolicy

_JITTER = 0.5


def retry_policy(settings: Settings) -> RetryPolicy:
    delays = settings.replication.retry_seconds
    return RetryPolicy(delays=delays, tries=len(delays) + 1, jitter=_JITTER)


def longest_pending_seconds(settings: Settings) -> float:
    """So long a version is tried at most, unless its site is paused or has more to do than it can: with all retries,
    each of them by a process that was killed."""
    policy = retry_policy(settings)
    return policy.longest_seconds + policy.tries * settings.topics.lease_seconds
