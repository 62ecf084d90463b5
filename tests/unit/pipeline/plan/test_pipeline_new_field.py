"""A field that events get is added in one place: the log table, the plan and the task have it, old files do without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from log_cases import Log, put


def test_a_new_field_of_events_reaches_the_log_table_the_plan_and_the_task(spark, tmp_path):
    log = Log(spark, tmp_path)
    log.append(put(1, key="old"))
    log.land()
    log.close()
    program = Path(__file__).with_name("wider_event.py")
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ran = subprocess.run(
        [sys.executable, str(program), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "table": {"old": None, "new": "image/é"},
        "plan": {"old": None, "new": "image/é"},
        "tasks": {"old": "", "new": "image/é"},
    }
