"""Consumers that wait for messages that never come."""

from __future__ import annotations

import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread

from tidegate import settings as settings_module
from tidegate.assembly import open_topics
from tidegate.ports import Consumer

SETTLING_SECONDS = 15.0
_TOPIC = "bench-idle"


def consume(data: Path, count: int, seconds: float, result: Connection) -> None:
    settings = settings_module.restore((data / "run" / "settings.json").read_text())
    topics = open_topics(settings, data)
    topics.create(_TOPIC, 4)
    stop = Event()
    with ExitStack() as stack:
        stack.callback(topics.close)
        consumers = [topics.consumer(_TOPIC, f"idle-{number}") for number in range(count)]
        for consumer in consumers:
            stack.callback(consumer.close)
        threads = [Thread(target=_poll, args=(consumer, stop)) for consumer in consumers]
        for thread in threads:
            thread.start()
        time.sleep(SETTLING_SECONDS)
        before = time.process_time()
        time.sleep(seconds)
        used = time.process_time() - before
        stop.set()
        for thread in threads:
            thread.join()
    result.send(used)


def _poll(consumer: Consumer, stop: Event) -> None:
    while not stop.is_set():
        consumer.poll()
