"""The topics of lifecycle, and the groups that consume them."""

from __future__ import annotations

from tidegate.core.lifecycle.routes import TASK_TOPICS
from tidegate.core.lifecycle.tasks import AUDIT_TOPIC, OBJECT_TASKS_TOPIC
from tidegate.ports import Topics
from tidegate.workers.retry_policy import RetryPolicy

POPULATOR_GROUP = "lifecycle-queue-populator"
OBJECT_GROUP = "lifecycle-object-processor"

# The entries of the processes that act.
WORKERS = "lifecycle/workers/"
# Few and soon: what waits for a retry is a backlog, and no pass starts before it is gone.
RETRIES = RetryPolicy(delays=(5.0, 15.0), tries=3)

_PARTITIONS = 4


def create_topics(topics: Topics) -> None:
    for name in (*TASK_TOPICS, AUDIT_TOPIC):
        topics.create(name, _PARTITIONS)


def backlog(topics: Topics) -> int:
    """Object tasks that are not finished; what was handed over is nothing to wait for."""
    return topics.lag(OBJECT_TASKS_TOPIC, OBJECT_GROUP)


def trim_finished(topics: Topics) -> bool:
    """Clears away the object tasks if all of them are finished, and says whether they are."""
    bounds = topics.bounds(OBJECT_TASKS_TOPIC)
    if backlog(topics):
        return False
    # Everything before these ends was finished when the backlog was looked at.
    for partition, (first, following) in enumerate(bounds):
        if following > first:
            topics.trim(OBJECT_TASKS_TOPIC, partition, following)
    return True
