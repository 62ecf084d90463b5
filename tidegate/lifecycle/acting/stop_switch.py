"""The switch that stops lifecycle at once, on every machine: one entry in the tables, which workers look at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tidegate.core.errors import NotFound
from tidegate.core.lifecycle.routes import TASK_TOPICS
from tidegate.core.lifecycle.stops import EVERYTHING, Ends, Stops
from tidegate.core.records import Bucket
from tidegate.lifecycle.topics import WORKERS, create_topics
from tidegate.ports import Tables, Topics
from tidegate.workers.rate import Members

STOPS = "lifecycle/stops"
_LOOK_SECONDS = 0.25


def read_stops(tables: Tables) -> Stops:
    text = tables.get(STOPS)
    return Stops.from_json(text) if text is not None else Stops()


class StopReader:
    """What is stopped, as it was at most a quarter of a second ago. May be shared by threads."""

    def __init__(self, tables: Tables, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tables = tables
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._stops = Stops()

    def current(self) -> Stops:
        with self._lock:
            if self._clock() >= self._read_at + _LOOK_SECONDS:
                self._stops = read_stops(self._tables)
                self._read_at = self._clock()
            return self._stops


class StopSwitch:
    def __init__(self, tables: Tables, topics: Topics) -> None:
        self._tables = tables
        self._topics = topics

    def stop(self, bucket: str = "", *, now_ns: int) -> Stops:
        """Of everything, or of a bucket; `NotFound` where there is none of that name. It needs the tables alone."""
        scope = self._uid(bucket) if bucket else EVERYTHING
        return self._change(lambda stops: stops.stopped(scope, bucket, now_ns))

    def resume(self, bucket: str = "", *, now_ns: int) -> Stops:
        """What was queued until now is not carried out; passes plan it again."""
        create_topics(self._topics)

        def resumed(stops: Stops) -> Stops:
            # By name: the bucket may be gone, and another one may have its name.
            scopes = [uid for uid, stop in stops.of.items() if stop.is_stopped and stop.bucket == bucket]
            if bucket and not scopes:
                self._uid(bucket)
            for scope in scopes:
                stops = stops.resumed(scope, now_ns, self._ends())
            return stops.without_past(self._begins())

        return self._change(resumed)

    def void_queued(self, *, now_ns: int) -> None:
        """For a service that starts with lifecycle switched off: what an earlier one left is not to be carried out when
        it is switched on again. What a service on another machine has queued is its own matter."""
        create_topics(self._topics)
        if not Members(self._tables, WORKERS).others_work():
            self._change(lambda stops: stops.voided(now_ns, self._ends()).without_past(self._begins()))

    def _change(self, changed: Callable[[Stops], Stops]) -> Stops:
        while True:
            text = self._tables.get(STOPS)
            stops = Stops.from_json(text) if text is not None else Stops()
            wanted = changed(stops)
            if wanted == stops or self._tables.compare_and_set(STOPS, text, wanted.to_json()):
                return wanted

    def _ends(self) -> Ends:
        return {topic: [following for _, following in self._topics.bounds(topic)] for topic in TASK_TOPICS}

    def _begins(self) -> Ends:
        return {topic: [first for first, _ in self._topics.bounds(topic)] for topic in TASK_TOPICS}

    def _uid(self, bucket: str) -> str:
        text = self._tables.get(Bucket.PREFIX + bucket)
        if text is None:
            raise NotFound(f"there is no bucket {bucket}")
        return Bucket.from_json(text).uid
