"""What consumer groups of the topics in files leave behind, and when a lease is over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlite_rows import rows

from tidegate.adapters import sqlite_groups
from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.member_leases import MOST_MEMBERS, Member, MemberLeases
from tidegate.adapters.sqlite import Database
from tidegate.core.errors import Unavailable
from tidegate.ports import Record


def test_finished_group_leaves_no_rows_behind(tmp_path: Path) -> None:
    topics = FileTopics(tmp_path / "topics")
    topics.create("t", 2)
    topics.append("t", [Record(f"k{number}", b"v") for number in range(20)])
    consumer = topics.consumer("t", "g")
    messages = consumer.poll(20)
    consumer.retry_later(messages[0], not_before=0)
    consumer.acknowledge(messages[:0:-1])
    consumer.acknowledge(consumer.poll(20))
    consumer.close()
    topics.close()
    file = tmp_path / "topics" / "groups.db"
    for table in ("done", "retries", "members"):
        assert rows(file, f"SELECT count(*) FROM {table}") == [(0,)]
    assert rows(file, "SELECT sum(committed), count(owner) FROM progress") == [(20, 0)]


@pytest.mark.parametrize(("renewed_at", "alive"), [(1000.0, True), (990.0, False), (990.1, True), (1000.1, False)])
def test_lease_counts_from_its_renewal_and_one_from_the_future_is_dead(
    tmp_path: Path, renewed_at: float, alive: bool
) -> None:
    leases = MemberLeases(tmp_path / "leases")
    leases.renew(7, renewed_at)
    assert MemberLeases(tmp_path / "leases").is_alive(Member(1, 7, lease=10.0), 1000.0) == alive


def test_a_member_put_out_owns_nothing_and_its_id_is_never_used_again(tmp_path: Path) -> None:
    database = Database(tmp_path / "groups.db", sqlite_groups.SCHEMA)
    with database.write() as connection:
        group = sqlite_groups.create(connection, "t", "g", 1)
        member = sqlite_groups.join(connection, group, 0, lease=10.0)
        assert sqlite_groups.claim(connection, group, member, 0)
        sqlite_groups.remove(connection, group, [member])
        assert sqlite_groups.owned(connection, group, member) == set()
        again = sqlite_groups.join(connection, group, 0, lease=10.0)
        assert again.id != member.id
        assert sqlite_groups.members(connection, group) == [again]
    database.close()


def test_slots_are_used_again_and_two_members_never_share_one(tmp_path: Path) -> None:
    database = Database(tmp_path / "groups.db", sqlite_groups.SCHEMA)
    with database.write() as connection:
        group = sqlite_groups.create(connection, "t", "g", 1)
        members = []
        for _ in range(3):
            slot = MemberLeases.free_slot(sqlite_groups.slots(connection))
            members.append(sqlite_groups.join(connection, group, slot, 10.0))
        sqlite_groups.remove(connection, group, [members[1]])
        assert [member.slot for member in members] == [0, 1, 2]
        assert MemberLeases.free_slot(sqlite_groups.slots(connection)) == 1
    database.close()
    with pytest.raises(Unavailable, match="consumers"):
        MemberLeases.free_slot(range(MOST_MEMBERS))


def test_partitions_are_shared_out_evenly() -> None:
    members = [Member(number, number, 10.0) for number in range(3)]
    shares = [sqlite_groups.fair_share(7, members, member) for member in members]
    assert sorted(map(len, shares)) == [2, 2, 3]
    assert set().union(*shares) == set(range(7))


def test_a_member_that_waits_opens_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = FileTopics(tmp_path / "topics", lease_seconds=6.0)
    topics.create("t", 2)
    consumers = [topics.consumer("t", "g") for _ in range(2)]
    for _ in range(3):
        for consumer in consumers:
            assert consumer.poll(10, 0.01) == []
    monkeypatch.setattr(Database, "read", None)
    monkeypatch.setattr(Database, "write", None)
    monkeypatch.setattr(os, "open", None)
    for _ in range(33):  # for longer than a lease
        for consumer in consumers:
            assert consumer.poll(10, 0.1) == []
    monkeypatch.undo()
    topics.append("t", [Record("k", b"1")])
    assert [message.value for consumer in consumers for message in consumer.poll(10, 0.01)] == [b"1"]
    for consumer in consumers:
        consumer.close()
    topics.close()
