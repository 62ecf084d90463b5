"""`python -m tidegate.pipeline.archive_classes`: archives the classes of Spark that a pass needs, by making one.

A pass over a few events does not differ from a large one in the classes that it needs. It goes the whole way, from the
topic to the tasks.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidegate.assembly import open_topics
from tidegate.core.errors import TidegateError
from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.assess import BucketContext
from tidegate.core.lifecycle.routes import ROUTES
from tidegate.core.lifecycle.rules import Action, ActionKind, Filter, Rule, RuleSet
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.shards import SHARDS
from tidegate.pipeline.log.event_columns import NS_PER_DAY
from tidegate.pipeline.log.landing import land
from tidegate.pipeline.log.log_table import LogTable
from tidegate.pipeline.plan.actions import RuledBucket
from tidegate.pipeline.plan.planning import Replayed, make_plan
from tidegate.pipeline.plan.task_publishing import publish_plan
from tidegate.pipeline.session import class_archive
from tidegate.pipeline.session.warm_session import WarmSession, jvm, spark_errors
from tidegate.pipeline.walk.listing_source import WalkedBucket
from tidegate.ports import Record
from tidegate.settings import Settings

_EVENTS = 100
_DAY = 20_000
_NOW_NS = (_DAY + 100) * NS_PER_DAY
_DUMP_SECONDS = 300


def main() -> None:
    class_archive.FILE.parent.mkdir(parents=True, exist_ok=True)
    class_archive.FILE.unlink(missing_ok=True)
    fresh = class_archive.FILE.with_suffix(".new")
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
            _archive(Path(folder), fresh)
        with fresh.open("rb") as written:
            os.fsync(written.fileno())  # Java trusts an archive, be it cut off
        fresh.replace(class_archive.FILE)
    except (TidegateError, OSError) as error:
        sys.exit(f"the classes of Spark could not be archived: {error}")
    finally:
        fresh.unlink(missing_ok=True)


def _archive(data: Path, file: Path) -> None:
    settings = Settings.model_validate(
        {"spark": {"options": {"spark.driver.defaultJavaOptions": class_archive.makes_archive(file)}}}
    )
    warm = WarmSession(settings, data)
    try:
        with spark_errors():
            _pass(warm.get(), settings, data)
            _exit(warm.get())
    finally:
        warm.end()


def _pass(session: SparkSession, settings: Settings, data: Path) -> None:
    table = LogTable(data)
    with closing(open_topics(settings, data)) as topics:
        for topic in {settings.metalog.topic, *(route.topic for route in ROUTES.values())}:
            topics.create(topic, 1)
        topics.append(settings.metalog.topic, [*map(_record, range(_EVENTS)), Record("none", b"no event")])
        land(session, table, topics, settings.metalog.topic, now_ns=_NOW_NS)
    place = WalkedBucket("uid", "bucket", "owner", "http://nowhere.invalid", "", "")
    replayed = [Replayed(_bucket(), dict.fromkeys(range(SHARDS), 0), place)]
    make_plan(session, table, data / "plan", now_ns=_NOW_NS, until_ns=_NOW_NS, walked=[], replayed=replayed)
    publish_plan(session, data / "plan", settings, data, pass_id="pass")


def _record(number: int) -> Record:
    event = Event(
        ts_ns=_DAY * NS_PER_DAY + number,
        operation=EventKind.PUT,
        pool="pool",
        bucket="bucket",
        bucket_uid="uid",
        owner="owner",
        key=f"key-{number}",
        size=number,
        etag="etag",
        tags=(("name", "value"),),
    )
    return Record(f"{event.bucket}/{event.key}", event.to_bytes())


def _bucket() -> RuledBucket:
    rule = Rule("rule", True, Filter(), (Action(ActionKind.EXPIRATION_DAYS, days=1),))
    return RuledBucket("uid", RuleSet((rule,)), BucketContext(Versioning.OFF))


def _exit(session: SparkSession) -> None:
    """The JVM ends in order, and writes the archive. Its answer never comes."""
    process, java = jvm(), session._jvm
    assert process is not None and java is not None
    session.stop()
    with suppress(Py4JError, OSError):
        java.java.lang.System.exit(0)
    process.wait(_DUMP_SECONDS)


if __name__ == "__main__":
    main()
