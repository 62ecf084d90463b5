from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tidegate.workers.delivery import BUSY, DONE, Answer, Disposition
from tidegate.workers.parallel import answered

PATIENCE_SECONDS = 60.0


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def _named(results: Mapping[int, str]) -> dict[int, Answer]:
    return {number: Answer(Disposition.RETRY, text) for number, text in results.items()}


def _waiting_for(flag: threading.Event, text: str) -> str:
    assert flag.wait(PATIENCE_SECONDS)
    return text


def test_answers_come_in_the_order_of_the_messages_whatever_ends_first(executor):
    second_has_ended = threading.Event()

    def second() -> str:
        second_has_ended.set()
        return "second"

    work: list[Callable[[], str] | None] = [partial(_waiting_for, second_has_ended, "first"), None, second]
    answers = [answer for answer in answered(executor, work, _named, beat_seconds=1) if answer is not BUSY]
    assert [answer.reason for answer in answers] == ["first", "", "second"]
    assert answers[1] is DONE


def test_a_batch_in_which_nothing_ends_is_busy(executor):
    may_end = threading.Event()
    answers = answered(executor, [partial(_waiting_for, may_end, "late")], _named, beat_seconds=0.01)
    assert [next(answers), next(answers)] == [BUSY, BUSY]
    may_end.set()
    assert [answer.reason for answer in answers if answer is not BUSY] == ["late"]


def test_what_has_ended_meanwhile_is_answered_together(executor):
    sizes: list[int] = []
    ended = threading.Semaphore(0)

    def work() -> str:
        ended.release()
        return ""

    def note(results: Mapping[int, str]) -> dict[int, Answer]:
        if not sizes:  # while the first ones are being stored, the others end
            executor.shutdown(wait=True)
        sizes.append(len(results))
        return dict.fromkeys(results, DONE)

    assert list(answered(executor, [work] * 20, note, beat_seconds=PATIENCE_SECONDS)) == [DONE] * 20
    assert len(sizes) <= 2
    assert sum(sizes) == 20


def test_work_that_fails_ends_the_batch_and_what_has_not_begun_is_never_begun():
    begun: list[int] = []

    def work(number: int) -> str:
        begun.append(number)
        if number == 0:
            raise RuntimeError("the first one")
        time.sleep(0.2)
        return ""

    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError):
        list(answered(pool, [partial(work, number) for number in range(1000)], _named, beat_seconds=1))
    assert len(begun) < 1000


def test_a_caller_that_leaves_waits_for_what_was_begun(executor):
    may_end, ended = threading.Event(), threading.Event()

    def work() -> str:
        assert may_end.wait(PATIENCE_SECONDS)
        ended.set()
        return ""

    answers = answered(executor, [work], _named, beat_seconds=0.01)
    assert next(answers) is BUSY
    may_end.set()
    answers.close()  # type: ignore[attr-defined]  # a generator
    assert ended.is_set()
