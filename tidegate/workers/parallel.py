"""Has the messages of a batch seen to by several threads, however long they take, and answers in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from tidegate.workers.delivery import BUSY, DONE, Answer

_Result = TypeVar("_Result")


def answered_at_once(
    executor: Executor, work: Callable[[], Sequence[Answer]], *, beat_seconds: float
) -> Iterator[Answer]:
    """The answers of work that sees to all messages of a batch together. While it goes on, the batch is busy."""
    future = executor.submit(work)
    try:
        while not wait([future], timeout=beat_seconds).done:
            yield BUSY
    finally:
        wait([future])
    yield from future.result()


def answered(
    executor: Executor,
    work: Sequence[Callable[[], _Result] | None],
    answer: Callable[[Mapping[int, _Result]], Mapping[int, Answer]],
    *,
    beat_seconds: float,
) -> Iterator[Answer]:
    """`work` is what is to be done for each message; where there is nothing, the message is done. `answer` is called in
    the caller's thread with what has ended since the last time, by the message's place: several results can be stored
    with one write. While nothing ends, the batch is busy."""
    answers: dict[int, Answer] = {number: DONE for number, each in enumerate(work) if each is None}
    ended: SimpleQueue[tuple[int, Future[_Result]]] = SimpleQueue()
    begun: list[Future[_Result]] = []
    given = 0
    try:
        for number, each in enumerate(work):
            if each is not None:
                future = executor.submit(each)
                begun.append(future)
                future.add_done_callback(partial(_enter, ended, number))
        while given < len(work):
            while given in answers:
                yield answers.pop(given)
                given += 1
            if given < len(work):
                results = {number: future.result() for number, future in _taken(ended, beat_seconds)}
                answers |= answer(results) if results else {}
                if not results:
                    yield BUSY
    finally:
        # What has not begun when the worker leaves is never begun; what has comes to its end.
        for future in begun:
            future.cancel()
        wait(begun)


def _enter(ended: SimpleQueue[tuple[int, Future[_Result]]], number: int, future: Future[_Result]) -> None:
    ended.put((number, future))


def _taken(ended: SimpleQueue[tuple[int, Future[_Result]]], seconds: float) -> Iterator[tuple[int, Future[_Result]]]:
    """What has ended; where that is nothing, the first to end within so many seconds."""
    with suppress(Empty):
        yield ended.get(timeout=seconds)
        while True:
            yield ended.get_nowait()
