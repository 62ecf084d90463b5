"""What a worker leaves, for example because a site is paused, comes again without a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event as Flag

from storage import Storage

from tidegate.workers.delivery import DONE, LEFT, Answer, Delivery
from tidegate.workers.worker import Worker


def test_what_was_left_comes_again_to_the_same_worker(storage: Storage) -> None:
    storage.append("example", [b"1", b"2", b"3"])
    is_paused = True
    done: list[int] = []

    def handle(deliveries: Sequence[Delivery[int]]) -> Iterator[Answer]:
        for delivery in deliveries:
            if is_paused and delivery.task != 1:
                yield LEFT
            else:
                done.append(delivery.task)
                yield DONE

    made = Worker(
        storage.topics, storage.tables, topic="example", group="example", decode=int, handle_batch=handle, stop=Flag()
    )
    while 1 not in done:
        made.run_once()
    is_paused = False
    while made.run_once():
        pass
    made.close()
    assert sorted(done) == [1, 2, 3]
    assert storage.topics.lag("example", "example") == 0
