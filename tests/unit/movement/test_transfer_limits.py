"""How much one process asks of a location."""

from __future__ import annotations

import threading

import pytest

from tidegate.core.errors import Unavailable
from tidegate.movement.transfer_limits import TransferLimits


class Clock:
    """Goes on by sleeping alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_bytes_go_no_faster_than_the_limit_once_the_burst_is_used_up() -> None:
    clock = Clock()
    limits = TransferLimits("cold", 1, 1000, clock=lambda: clock.now, sleep=clock.sleep)
    for _ in range(100):
        limits.moved(limits.portion(10_000))
    assert limits.portion(10_000) == 250
    assert clock.now == pytest.approx(25 - 2)  # 25,000 bytes, of which two seconds' worth came at once


def test_without_a_limit_nobody_waits() -> None:
    limits = TransferLimits("cold", 1, 0, sleep=lambda _: pytest.fail("it waited"))
    limits.moved(10**12)
    assert limits.portion(10_000) == 10_000


def test_no_more_transfers_run_at_a_time_than_allowed() -> None:
    limits = TransferLimits("cold", 2, 0)
    running, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal running, most
        for _ in range(200):
            with limits.transfer():
                with lock:
                    running += 1
                    most = max(most, running)
                with lock:
                    running -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (running, most) in {(0, 1), (0, 2)}


def test_what_a_thread_does_within_its_own_transfer_is_part_of_it() -> None:
    limits = TransferLimits("cold", 1, 0, wait_seconds=0.01)
    with limits.transfer(), limits.transfer():
        pass
    with limits.transfer():
        pass


def test_a_location_that_stays_busy_is_unavailable_and_free_again_after_an_error() -> None:
    limits = TransferLimits("cold", 1, 0, wait_seconds=0.01)
    holds, release = threading.Event(), threading.Event()

    def hold() -> None:
        with limits.transfer():
            holds.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holds.wait(30)
    with pytest.raises(Unavailable, match="location cold is busy"), limits.transfer():
        pass
    release.set()
    thread.join()
    with pytest.raises(RuntimeError), limits.transfer():
        raise RuntimeError
    with limits.transfer():
        pass
