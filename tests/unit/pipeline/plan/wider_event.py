"""A process in which events have one field more, `content_type`: it lands an event, plans, and shows what became of it.

The field is added to `VersionAttributes` and nowhere else, before anything else of the package is imported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tidegate.core import version_attributes


class WiderAttributes(version_attributes.VersionAttributes, frozen=True, kw_only=True):
    content_type: str = ""


version_attributes.VersionAttributes = WiderAttributes


def main(data: Path) -> None:
    from lifecycle_cases import expiration, rule, rules
    from log_cases import NOW, Log, put
    from test_pipeline_planning import place

    from tidegate import assembly
    from tidegate.core.lifecycle.assess import BucketContext
    from tidegate.core.lifecycle.subjects import Versioning
    from tidegate.core.lifecycle.tasks import OBJECT_TASKS_TOPIC, ObjectTask
    from tidegate.core.shards import SHARDS
    from tidegate.pipeline.plan.actions import RuledBucket
    from tidegate.pipeline.plan.planning import Replayed, make_plan
    from tidegate.pipeline.plan.task_publishing import publish_plan, read_plan
    from tidegate.pipeline.session.spark_session import open_session
    from tidegate.settings import Settings

    settings = Settings()
    session = open_session(settings, data / "spark")
    log = Log(session, data)
    log.append(put(2, key="new", content_type="image/é"))
    log.land()
    log.table.compact(session, most_files=1)
    ruled = RuledBucket("uid", rules(rule(expiration(1))), BucketContext(Versioning.OFF))
    replayed = Replayed(ruled, dict.fromkeys(range(SHARDS), 0), place("uid"))
    folder = data / "plan"
    make_plan(session, log.table, folder, now_ns=NOW, until_ns=NOW, walked=(), replayed=[replayed])
    topics = assembly.open_topics(settings, data)
    topics.create(OBJECT_TASKS_TOPIC, 1)
    publish_plan(session, folder, settings, data, pass_id="pass-1")
    tasks = [ObjectTask.from_bytes(message.value) for message in topics.read(OBJECT_TASKS_TOPIC, 0, 0, 10)]
    plan = read_plan(session, folder)
    found = {
        "table": {row.key: row.content_type for row in log.rows()},
        "plan": {row.key: row.content_type for row in plan.collect()},
        "tasks": {task.key: task.content_type for task in tasks},
    }
    print(json.dumps(found))
    topics.close()
    log.close()
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
