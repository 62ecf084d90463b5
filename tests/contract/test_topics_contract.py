"""The behaviour of `Topics` as a log, the same over every adapter and its real server."""

from __future__ import annotations

import threading
import time

import pytest
from contract_processes import TopicsAddress, append_batches, children

from tidegate.adapters.limits import MAX_MESSAGE_BYTES
from tidegate.core.errors import InvalidInput, NotFound
from tidegate.ports import Message, Record, Topics

AWKWARD_KEYS = ["", "k", "a:b", "a\nb", "a/b", "a\x00b", "😀", "é" * 512, " "]


def numbered(count: int, keys: int = 10) -> list[Record]:
    return [Record(f"key-{number % keys}", b"%d" % number) for number in range(count)]


def read_all(topics: Topics, topic: str, limit: int = 100) -> list[Message]:
    """Every message, partition by partition, checked to be without gaps."""
    found: list[Message] = []
    for partition, (first, end) in enumerate(topics.bounds(topic)):
        offset = first
        while True:
            page = topics.read(topic, partition, offset, limit)
            assert [message.offset for message in page] == list(range(offset, offset + len(page)))
            found += page
            offset += len(page)
            if len(page) < limit:
                break
        assert offset >= end
    return found


def test_unknown_topic_is_not_found_and_not_made_by_asking(topics: Topics) -> None:
    asked = [
        lambda: topics.append("nowhere", [Record("k", b"v")]),
        lambda: topics.append("nowhere", []),
        lambda: topics.consumer("nowhere", "group"),
        lambda: topics.lag("nowhere", "group"),
        lambda: topics.read("nowhere", 0, 0, 1),
        lambda: topics.bounds("nowhere"),
        lambda: topics.trim("nowhere", 0, 1),
        lambda: topics.probe("nowhere"),
    ]
    for ask in asked:
        with pytest.raises(NotFound):
            ask()
    assert topics.names() == []


def test_a_probe_of_a_topic_that_works_leaves_nothing_behind(topics: Topics) -> None:
    topics.create("tide", 2)
    topics.append("tide", numbered(5))
    before = topics.bounds("tide")
    topics.probe("tide")
    topics.probe("tide")
    assert topics.bounds("tide") == before
    assert len(read_all(topics, "tide")) == 5


def test_names_are_sorted_and_creating_twice_changes_nothing(topics: Topics) -> None:
    topics.create("tide", 3)
    topics.create("gate", 1)
    topics.append("tide", numbered(5))
    topics.create("tide", 7)
    assert topics.names() == ["gate", "tide"]
    assert len(topics.bounds("tide")) == 3
    assert len(read_all(topics, "tide")) == 5


def test_topic_made_by_one_is_found_by_another(topics: Topics, topics_address: TopicsAddress) -> None:
    other = topics_address.open()
    with pytest.raises(NotFound):
        other.bounds("late")
    topics.create("late", 2)
    assert other.bounds("late") == [(0, 0), (0, 0)]
    other.close()


@pytest.mark.parametrize("name", ["", "a/b", "a b", ".a", "a" * 101, "x.retry", "é"])
def test_unusable_topic_name_is_refused(topics: Topics, name: str) -> None:
    with pytest.raises(InvalidInput):
        topics.create(name, 1)


@pytest.mark.parametrize("partitions", [0, -1, 1025])
def test_unusable_number_of_partitions_is_refused(topics: Topics, partitions: int) -> None:
    with pytest.raises(InvalidInput):
        topics.create("t", partitions)


def test_unusable_group_name_is_refused(topics: Topics) -> None:
    topics.create("t", 1)
    for name in ("", "a.b", "a:b", "a" * 41):
        with pytest.raises(InvalidInput):
            topics.consumer("t", name)


def test_record_comes_back_as_it_was(topics: Topics) -> None:
    topics.create("t", 2)
    before = time.time()
    records = [Record(key, bytes(range(256)) + key.encode()) for key in AWKWARD_KEYS] + [Record("empty", b"")]
    topics.append("t", records)
    found = read_all(topics, "t")
    assert {(message.key, message.value) for message in found} == {(record.key, record.value) for record in records}
    for message in found:
        assert message.topic == "t"
        assert message.attempt == 1
        assert before - 0.002 <= message.appended_at <= time.time() + 0.002


def test_equal_keys_stay_together_and_in_order(topics: Topics) -> None:
    topics.create("t", 4)
    records = numbered(500, keys=23)
    for start in range(0, 500, 50):
        topics.append("t", records[start : start + 50])
    found = read_all(topics, "t")
    for key in {record.key for record in records}:
        of_key = [message for message in found if message.key == key]
        assert len({message.partition for message in of_key}) == 1
        assert [message.value for message in of_key] == [record.value for record in records if record.key == key]
    assert len({message.partition for message in found}) == 4


def test_a_record_goes_to_the_partition_that_it_names(topics: Topics) -> None:
    topics.create("t", 4)
    topics.append("t", [Record("k", f"{number}".encode(), number % 3) for number in range(12)])
    assert [end for _, end in topics.bounds("t")] == [4, 4, 4, 0]
    assert [message.value for message in topics.read("t", 1, 0, 10)] == [b"1", b"4", b"7", b"10"]


def test_partition_of_a_key_is_the_same_in_every_process(topics: Topics, topics_address: TopicsAddress) -> None:
    topics.create("t", 8)
    topics.append("t", [Record(key, b"1") for key in AWKWARD_KEYS])
    other = topics_address.open()
    other.append("t", [Record(key, b"2") for key in AWKWARD_KEYS])
    other.close()
    places = {
        key: {message.partition for message in read_all(topics, "t") if message.key == key} for key in AWKWARD_KEYS
    }
    assert all(len(partitions) == 1 for partitions in places.values())


def test_empty_batch_appends_nothing(topics: Topics) -> None:
    topics.create("t", 1)
    topics.append("t", [])
    assert topics.bounds("t") == [(0, 0)]


def test_largest_record_is_taken_and_a_larger_one_refused_with_its_batch(topics: Topics) -> None:
    topics.create("t", 1)
    largest = Record("k", b"x" * MAX_MESSAGE_BYTES)
    topics.append("t", [largest])
    for refused in (Record("k", b"x" * (MAX_MESSAGE_BYTES + 1)), Record("k" * 8193, b""), Record("\ud800", b"")):
        with pytest.raises(InvalidInput):
            topics.append("t", [Record("k", b"fine"), refused])
    assert [message.value for message in topics.read("t", 0, 0, 10)] == [largest.value]


def test_read_pages_through_and_fewer_than_the_limit_is_the_end(topics: Topics) -> None:
    topics.create("t", 1)
    topics.append("t", numbered(10))
    assert [message.offset for message in topics.read("t", 0, 0, 4)] == [0, 1, 2, 3]
    assert [message.offset for message in topics.read("t", 0, 4, 4)] == [4, 5, 6, 7]
    assert [message.offset for message in topics.read("t", 0, 8, 4)] == [8, 9]
    assert topics.read("t", 0, 10, 4) == []
    assert topics.read("t", 0, 99, 4) == []
    assert [message.offset for message in topics.read("t", 0, 3, 2)] == [3, 4]
    topics.append("t", numbered(1))
    assert [message.offset for message in topics.read("t", 0, 10, 4)] == [10]


def test_unknown_partition_is_not_found(topics: Topics) -> None:
    topics.create("t", 2)
    for partition in (-1, 2):
        with pytest.raises(NotFound):
            topics.read("t", partition, 0, 1)
        with pytest.raises(NotFound):
            topics.trim("t", partition, 1)


def test_bounds_follow_appends_and_trims(topics: Topics) -> None:
    topics.create("t", 1)
    assert topics.bounds("t") == [(0, 0)]
    topics.append("t", numbered(20))
    assert topics.bounds("t") == [(0, 20)]
    topics.trim("t", 0, 8)
    assert topics.bounds("t") == [(8, 20)]
    topics.trim("t", 0, 3)
    assert topics.bounds("t") == [(8, 20)]
    assert [message.offset for message in topics.read("t", 0, 0, 2)] == [8, 9]
    topics.trim("t", 0, 1000)
    assert topics.bounds("t") == [(20, 20)]
    assert topics.read("t", 0, 0, 10) == []
    topics.append("t", numbered(1))
    assert [message.offset for message in topics.read("t", 0, 0, 10)] == [20]


def test_topics_survive_reopening(topics: Topics, topics_address: TopicsAddress) -> None:
    topics.create("t", 3)
    topics.append("t", numbered(30))
    before = read_all(topics, "t")
    reopened = topics_address.open()
    assert read_all(reopened, "t") == before
    reopened.append("t", numbered(3))
    reopened.close()
    assert len(read_all(topics, "t")) == 33


def test_processes_append_at_once_and_readers_never_see_a_gap(topics: Topics, topics_address: TopicsAddress) -> None:
    topics.create("t", 3)
    names = [f"producer-{number}" for number in range(4)]
    with children(*[(append_batches, topics_address, "t", name, 20, 10) for name in names]) as producers:
        for producer in producers:
            producer.hear()
        for producer in producers:
            producer.say("go")
        for producer in producers:
            while not producer.line.poll(0.02):
                read_all(topics, "t")
            assert producer.hear() == "done"
    found = read_all(topics, "t")
    for name in names:
        mine = [message.value for message in found if message.key == name]
        assert mine == [b"%s:%d" % (name.encode(), number) for number in range(200)]


def test_threads_share_one_object(topics: Topics) -> None:
    topics.create("t", 2)

    def work(name: str) -> None:
        for number in range(25):
            topics.append("t", [Record(name, b"%d" % number)])
            topics.read("t", 0, 0, 5)

    threads = [threading.Thread(target=work, args=[f"thread-{number}"]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_all(topics, "t")
    for number in range(4):
        mine = [message.value for message in found if message.key == f"thread-{number}"]
        assert mine == [b"%d" % step for step in range(25)]
