"""Where tasks go: one table from what they do to the topic from which it is done.

Each kind of work has a topic of its own, so that no backlog of one holds up another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core.copy_tasks import DATA_MOVER_TOPIC
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC


@dataclass(frozen=True, slots=True)
class Route:
    """A pass waits for the tasks of a route, unless the route `is_handed_over`: its work may take days."""

    topic: str
    is_handed_over: bool = False


_ACTED_ON = Route(OBJECT_TASKS_TOPIC)

ROUTES: Mapping[Effect, Route] = {
    Effect.DELETE: _ACTED_ON,
    Effect.EXPIRE: _ACTED_ON,
    Effect.REMOVE_MARKER: _ACTED_ON,
    Effect.ABORT_UPLOAD: _ACTED_ON,
    Effect.TRANSITION: Route(DATA_MOVER_TOPIC, is_handed_over=True),
}
TASK_TOPICS = tuple(dict.fromkeys(route.topic for route in ROUTES.values()))
