"""What a consumer holds between Kafka and its caller: plain values, no server.

A message that was read is ready, waits for its time, or is in flight, until the caller finishes it or
its partition goes to another member.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidegate.adapters.kafka_progress import Delivery, PartitionId, Progress, Source, WaitingRoom
from tidegate.ports import Message

_Identity = tuple[int, int, int]  # partition, offset, attempt


class Holdings:
    def __init__(self) -> None:
        self._progress: dict[PartitionId, Progress] = {}
        self._committed: dict[PartitionId, tuple[int, str]] = {}
        self._ready: deque[Delivery] = deque()
        self._waiting = WaitingRoom()
        self._in_flight: dict[_Identity, list[Source]] = {}
        self._turn = 0

    @property
    def places(self) -> list[PartitionId]:
        return list(self._progress)

    @property
    def ready_count(self) -> int:
        return len(self._ready)

    @property
    def waiting_bytes(self) -> int:
        return self._waiting.size_bytes

    def next_due(self) -> float | None:
        return self._waiting.next_due()

    def gain(self, place: PartitionId, done_before: Iterable[int]) -> None:
        self._progress[place] = Progress(done_before)

    def drop(self, places: Iterable[PartitionId]) -> None:
        """Forgets partitions that are another member's now, with all that was read from them."""
        for place in places:
            self._progress.pop(place, None)
            self._committed.pop(place, None)
        self._waiting.keep(self._is_held)
        self._ready = deque(filter(self._is_held, self._ready))
        kept = {
            identity: [source for source in sources if source.place in self._progress]
            for identity, sources in self._in_flight.items()
        }
        self._in_flight = {identity: sources for identity, sources in kept.items() if sources}

    def expects(self, source: Source) -> bool:
        """Notes that a message was read. False if it is not ours to deliver, or finished already."""
        progress = self._progress.get(source.place)
        return progress is not None and progress.fetched(source.offset)

    def add_ready(self, delivery: Delivery) -> None:
        self._ready.append(delivery)

    def add_waiting(self, delivery: Delivery) -> None:
        self._waiting.add(delivery)

    def take(self, limit: int, now: float) -> list[Message]:
        """Retries and first deliveries, in turns first, so that neither kind can starve the other."""
        self._turn += 1
        if self._turn % 2:
            taken = self._waiting.take_due(now, limit)
            taken += self._take_ready(limit - len(taken))
        else:
            taken = self._take_ready(limit)
            taken += self._waiting.take_due(now, limit - len(taken))
        batch = []
        for delivery in taken:
            sources = self._in_flight.setdefault(_identity(delivery.message), [])
            if not sources:  # otherwise a second copy, stored when a retry was repeated: finished with the first
                batch.append(delivery.message)
            sources.append(delivery.source)
        return batch

    def _take_ready(self, limit: int) -> list[Delivery]:
        return [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]

    def in_flight(self, message: Message) -> bool:
        return _identity(message) in self._in_flight

    def finish(self, message: Message) -> None:
        """What is not held any more is left alone: it is being delivered to another member."""
        for source in self._in_flight.pop(_identity(message), []):
            self._progress[source.place].finished(source.offset)

    def uncommitted(self, places: Iterable[PartitionId]) -> dict[PartitionId, tuple[int, str]]:
        """The offsets and notes that Kafka does not know yet."""
        found = {}
        for place in places:
            progress = self._progress.get(place)
            state = progress.to_commit() if progress else None
            if state is not None and state != self._committed.get(place):
                found[place] = state
        return found

    def committed(self, states: dict[PartitionId, tuple[int, str]]) -> None:
        self._committed.update(states)

    def _is_held(self, delivery: Delivery) -> bool:
        return delivery.source.place in self._progress


def _identity(message: Message) -> _Identity:
    return message.partition, message.offset, message.attempt
