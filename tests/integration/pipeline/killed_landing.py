"""Lands a log and kills itself after one step: `killed_landing.py DIR MODULE STEP`."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from pathlib import Path

from tidegate import assembly
from tidegate.pipeline.log.landing import land
from tidegate.pipeline.log.log_table import LogTable
from tidegate.pipeline.session.spark_session import open_session
from tidegate.settings import Settings


def main(data: Path, module: str, step: str) -> None:
    owner = importlib.import_module(module)
    original = getattr(owner, step)

    def killed(*arguments, **options):
        original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, step, killed)
    settings = Settings()
    topics = assembly.open_topics(settings, data)
    land(open_session(settings, data), LogTable(data), topics, settings.metalog.topic, now_ns=time.time_ns())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
