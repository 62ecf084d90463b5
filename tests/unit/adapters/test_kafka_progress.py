from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.adapters.kafka_progress import NOTE_BYTES, Delivery, Progress, Source, WaitingRoom, read_note
from tidegate.ports import Message


def delivery(offset: int, not_before: float, partition: int = 0) -> Delivery:
    return Delivery(Message("t", 0, offset, "k", b"v", 0.0, 2), Source("t.g.retry", partition, offset), not_before)


def test_nothing_is_committed_before_the_first_message() -> None:
    assert Progress([3]).to_commit() is None


def test_committed_offset_is_that_of_the_first_unfinished() -> None:
    progress = Progress()
    for offset in (5, 6, 7, 8):
        assert progress.fetched(offset)
    assert progress.to_commit() == (5, "")
    progress.finished(6)
    assert progress.to_commit() == (5, "done:1")
    progress.finished(8)
    assert progress.to_commit() == (5, "done:1,3")
    progress.finished(5)
    assert progress.to_commit() == (7, "done:1")
    progress.finished(7)
    assert progress.to_commit() == (9, "")


def test_successor_passes_over_what_was_finished() -> None:
    successor = Progress(read_note(7, "done:1,3-4"))
    assert [offset for offset in range(7, 13) if successor.fetched(offset)] == [7, 9, 12]


def test_note_is_kept_until_its_messages_have_been_fetched() -> None:
    progress = Progress(read_note(7, "done:2,4"))
    assert progress.fetched(7)
    assert progress.to_commit() == (7, "done:2,4")
    progress.finished(7)
    assert progress.to_commit() == (8, "done:1,3")


def test_stretch_that_is_read_again_is_not_committed_before_it_is_finished_again() -> None:
    progress = Progress()
    for offset in (5, 6, 7, 8):
        progress.fetched(offset)
    progress.finished(7)
    assert progress.fetched(6)
    progress.finished(5)
    assert progress.to_commit() == (6, "")
    progress.finished(6)
    assert progress.to_commit() == (7, "")
    assert progress.fetched(7)
    assert progress.to_commit() == (7, "")


def test_note_of_somebody_else_is_ignored() -> None:
    assert read_note(7, "") == set()
    assert read_note(7, "a note by another program") == set()


@given(st.integers(0, 10**12), st.lists(st.booleans(), max_size=200), st.integers(0, 200))
def test_whatever_is_finished_successors_get_exactly_the_rest(base: int, finished: list[bool], fetched: int) -> None:
    """Over two restarts, the second of which comes before everything was fetched again."""
    progress = Progress()
    for offset in range(base, base + len(finished)):
        progress.fetched(offset)
    for index, is_finished in enumerate(finished):
        if is_finished:
            progress.finished(base + index)
    rest = [base + index for index, is_finished in enumerate(finished) if not is_finished]
    committed = progress.to_commit()
    if committed is None:
        assert not finished
        return
    start, note = committed
    second = Progress(read_note(start, note))
    got = [offset for offset in range(start, min(start + fetched, base + len(finished))) if second.fetched(offset)]
    assert got == [offset for offset in rest if offset < start + fetched]
    start, note = second.to_commit() or committed
    third = Progress(read_note(start, note))
    assert [offset for offset in range(start, base + len(finished)) if third.fetched(offset)] == rest


def test_note_never_grows_beyond_what_a_broker_takes() -> None:
    progress = Progress()
    for offset in range(20_000):
        progress.fetched(offset)
    for offset in range(1, 20_000, 2):
        progress.finished(offset)
    offset, note = progress.to_commit() or (-1, "")
    assert offset == 0
    assert len(note) <= NOTE_BYTES
    assert read_note(0, note) <= set(range(1, 20_000, 2))


def test_waiting_room_gives_what_is_due_the_earliest_first() -> None:
    room = WaitingRoom()
    for offset, not_before in enumerate([30.0, 10.0, 20.0]):
        room.add(delivery(offset, not_before))
    assert room.next_due() == 10.0
    assert room.take_due(9.9, 10) == []
    assert [found.message.offset for found in room.take_due(20.0, 10)] == [1, 2]
    assert room.next_due() == 30.0
    assert [found.message.offset for found in room.take_due(99.0, 10)] == [0]
    assert room.next_due() is None
    assert room.size_bytes == 0


def test_waiting_room_gives_no_more_than_the_limit_and_forgets_on_request() -> None:
    room = WaitingRoom()
    for offset in range(6):
        room.add(delivery(offset, float(offset), partition=offset % 2))
    assert len(room.take_due(99.0, 2)) == 2
    room.keep(lambda waiting: waiting.source.partition == 1)
    assert [found.message.offset for found in room.take_due(99.0, 10)] == [3, 5]
    assert room.size_bytes == 0
