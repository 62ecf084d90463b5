"""The topics of movement, and the groups that consume them."""

from __future__ import annotations

from tidegate.core.copy_tasks import DATA_MOVER_TOPIC
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC
from tidegate.ports import Topics

# What became of the copies that operators asked for.
MOVEMENT_RESULTS_TOPIC = "movement-results"
# To which data movers send statuses.
RESULT_TOPICS = (OBJECT_TASKS_TOPIC, MOVEMENT_RESULTS_TOPIC)
PLACER_GROUP = "placer"
BACK_GROUP = "data-mover-back"

_PARTITIONS = 4


def mover_group(location: str) -> str:
    return f"data-mover-{location}"


def create_topics(topics: Topics) -> None:
    for name in (DATA_MOVER_TOPIC, *RESULT_TOPICS):
        topics.create(name, _PARTITIONS)
