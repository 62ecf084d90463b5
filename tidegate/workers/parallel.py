"""Has the messages of a batch seen to by several threads, however long they take, and answers in their order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
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
    groups = [((number,), _alone(each)) for number, each in enumerate(work) if each is not None]
    return answered_by_groups(executor, len(work), groups, answer, beat_seconds=beat_seconds)


def _alone(work: Callable[[], _Result]) -> Callable[[], Sequence[_Result]]:
    return lambda: (work(),)


def answered_by_groups(
    executor: Executor,
    messages: int,
    groups: Sequence[tuple[Sequence[int], Callable[[], Sequence[_Result]]]],
    answer: Callable[[Mapping[int, _Result]], Mapping[int, Answer]],
    *,
    beat_seconds: float,
    gather_seconds: float = 0.0,
) -> Iterator[Answer]:
    """As `answered`, where one thread sees to several messages: a group has their places and the work that gives a
    result for each. What is in no group is done. After something has ended, more is waited for so long."""
    grouped = {number for numbers, _ in groups for number in numbers}
    answers: dict[int, Answer] = {number: DONE for number in range(messages) if number not in grouped}
    under_way: dict[Future[Sequence[_Result]], Sequence[int]] = {}
    ended: SimpleQueue[Future[Sequence[_Result]]] = SimpleQueue()
    given = 0
    try:
        for numbers, work in groups:
            future = executor.submit(work)
            under_way[future] = numbers
            future.add_done_callback(ended.put)
        while given < messages:
            while given in answers:
                yield answers.pop(given)
                given += 1
            if given == messages:
                break
            results: dict[int, _Result] = {}
            for future in _taken(ended, len(under_way), beat_seconds, gather_seconds):
                results.update(zip(under_way.pop(future), future.result(), strict=True))
            answers |= answer(results) if results else {}
            if not results:
                yield BUSY
    finally:
        # What has not begun when the worker leaves is never begun; what has comes to its end.
        for future in under_way:
            future.cancel()
        wait(under_way)


def _taken(
    ended: SimpleQueue[Future[_Result]], most: int, seconds: float, gather_seconds: float
) -> list[Future[_Result]]:
    """What has ended, or the first to end within so many seconds; and then what ends while more is gathered."""
    taken: list[Future[_Result]] = []
    until = time.monotonic() + seconds
    while len(taken) < most:
        left = until - time.monotonic()
        try:
            taken.append(ended.get(timeout=left) if left > 0 else ended.get_nowait())
        except Empty:
            break
        if len(taken) == 1:
            until = time.monotonic() + gather_seconds
    return taken
