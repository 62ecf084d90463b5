"""The metadata log of a running service, held up as by a process that hangs in the middle of a write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from running_service import RunningService

from tidegate.adapters.log_state import LogState
from tidegate.settings import restore


def _state(service: RunningService) -> LogState:
    settings = restore((service.data / "run" / "settings.json").read_text())
    return LogState(service.data / "topics" / "logs" / settings.metalog.topic)


@contextmanager
def held_log(service: RunningService) -> Iterator[None]:
    """Nobody can write the log."""
    with _state(service).lock:
        yield


@contextmanager
def refusing_log(service: RunningService) -> Iterator[Callable[[], None]]:
    """Holds the log up; from the call of what it gives on, the log refuses what has waited and what comes."""
    state = _state(service)
    with ExitStack() as held:
        held.enter_context(state.lock)
        active, written, committed = state.active, state.written, state.committed

        def refuse() -> None:
            state.begin_segment(active + 1, written)  # there is no such segment
            state.committed = committed
            held.close()

        try:
            yield refuse
        finally:
            held.close()
            with state.lock:
                state.begin_segment(active, written)
                state.committed = committed
