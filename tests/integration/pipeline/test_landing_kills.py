"""A landing whose process is killed: the next one ends what it began, and nothing is there twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidegate import assembly
from tidegate.core.events import Event, EventKind
from tidegate.pipeline.log.landing import land
from tidegate.pipeline.log.log_table import LogTable
from tidegate.ports import Record
from tidegate.settings import Settings

PROGRAM = Path(__file__).with_name("killed_landing.py")
EVENTS = 300


@pytest.fixture
def topics(tmp_path):
    settings = Settings()
    opened = assembly.open_topics(settings, tmp_path)
    opened.create(settings.metalog.topic, 4)
    now_ns = time.time_ns()
    events = [Event(now_ns + n, EventKind.PUT, "p", "b", "u", key=f"k{n}", size=n) for n in range(EVENTS)]
    opened.append(settings.metalog.topic, [Record(f"b/{event.key}", event.to_bytes()) for event in events])
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("module", "step", "landed"),
    [("tidegate.pipeline.log.log_table", "_move", 0), ("tidegate.pipeline.log.manifest", "store", EVENTS)],
)
def test_a_landing_that_is_killed_is_ended_by_the_next(spark, tmp_path, topics, module, step, landed):
    killed = subprocess.run([sys.executable, PROGRAM, tmp_path, module, step], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    table = LogTable(tmp_path)
    assert table.manifest().rows in (0, landed)
    land(spark, table, topics, Settings().metalog.topic, now_ns=time.time_ns())
    sizes = [row.size for row in table.read(spark, columns=["size"]).collect()]
    assert sorted(sizes) == list(range(EVENTS))
    files = {str(path.relative_to(table.path)) for path in table.path.rglob("*.parquet")}
    assert files == {file.path for file in table.manifest().files}
