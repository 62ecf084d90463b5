"""Which versions are put, in which order, and which of them a site has already."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.replication.ordering import SiteVersion, already_there, has_copy, to_put
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status

SITE = "one"


def record(number: int, status: Status = Status.PENDING, *, is_marker: bool = False) -> ReplicationRecord:
    return ReplicationRecord(
        "p", "b", "uid", "k", f"v{number}", ts_ns=number, last_modified=number, is_marker=is_marker,
        sites=(SiteState(SITE, "there", status, 0.0),),
    )  # fmt: skip


def names(records: tuple[ReplicationRecord, ...]) -> list[str]:
    return [each.version_id for each in records]


def test_what_is_older_and_waits_goes_first() -> None:
    records = [record(1), record(2), record(3)]
    assert names(to_put(records, SITE, records[1], ())) == ["v1", "v2"]


def test_what_is_older_and_has_failed_is_passed_over() -> None:
    records = [record(1, Status.FAILED), record(2)]
    assert names(to_put(records, SITE, records[1], ())) == ["v2"]


def test_a_failed_version_that_is_wanted_itself_is_put_and_what_is_newer_again() -> None:
    records = [record(1, Status.COMPLETED), record(2, Status.FAILED), record(3, Status.COMPLETED), record(4)]
    assert names(to_put(records, SITE, records[1], {"v1", "v3"})) == ["v2", "v3"]


def test_nothing_is_put_for_a_version_that_has_arrived() -> None:
    records = [record(1, Status.COMPLETED), record(2)]
    assert to_put(records, SITE, records[0], {"v1"}) == ()


def test_what_has_arrived_since_a_version_was_told_of_for_the_first_time_is_put_in_order_with_it() -> None:
    records = [record(number, Status.COMPLETED) for number in (1, 2, 3, 4)]
    arrived = {each.version_id for each in records}
    assert names(to_put(records, SITE, records[2], arrived, since_ns=2)) == ["v2", "v3", "v4"]
    assert names(to_put(records, SITE, records[2], arrived - {"v1"}, since_ns=2)) == ["v2", "v3", "v4"]
    waiting = [record(1), *records[1:]]
    assert names(to_put(waiting, SITE, records[2], arrived - {"v1"}, since_ns=2)) == ["v1", "v2", "v3", "v4"]


def test_a_version_whose_tags_are_on_their_way_has_a_copy() -> None:
    assert has_copy(SiteState(SITE, "there", Status.PENDING, 0.0, "copy"))
    assert not has_copy(SiteState(SITE, "there", Status.PENDING, 0.0))


def test_a_copy_counts_if_it_lies_above_those_before_it() -> None:
    records = [record(1), record(2), record(3)]
    shown = [SiteVersion("c2", replica_of="v2"), SiteVersion("c1", replica_of="v1"), SiteVersion("c3", replica_of="v3")]
    found = already_there(records, shown)
    assert [each.version_id if each else None for each in found] == ["c1", None, None]


def test_a_marker_that_is_nobodys_copy_is_taken_for_the_one_that_is_looked_for() -> None:
    records = [record(1, is_marker=True), record(2)]
    shown = [SiteVersion("m", is_marker=True), SiteVersion("foreign")]
    assert [each.version_id if each else None for each in already_there(records, shown)] == ["m", None]
    claimed = [SiteVersion("m", is_marker=True, replica_of="v0")]
    assert already_there(records, claimed) == (None, None)


def test_a_version_whose_copy_is_known_has_no_other() -> None:
    records = [record(1, is_marker=True), record(2, is_marker=True)]
    shown = [
        SiteVersion("former", is_marker=True),
        SiteVersion("c1", "", True, "v1"),
        SiteVersion("c2", "", True, "v2"),
    ]
    found = already_there(records, shown, copies={"v1": "c1", "v2": "c2"})
    assert [each.version_id if each else None for each in found] == ["c1", "c2"]
    assert already_there(records[:1], shown, copies={"v1": "lost"}) == (None,)


def test_a_marker_below_what_is_older_is_not_the_one_that_is_looked_for() -> None:
    shown = [SiteVersion("former", is_marker=True), SiteVersion("c1", "", True, "v1"), SiteVersion("m", is_marker=True)]
    wanted = [record(2, is_marker=True)]
    assert [each.version_id if each else None for each in already_there(wanted, shown, older={"v1"})] == ["m"]
    assert already_there(wanted, shown[:2], older={"v1"}) == (None,)


@given(st.lists(st.sampled_from(["pending", "failed", "arrived"]), min_size=1, max_size=8), st.data())
def test_what_was_put_lies_in_the_order_of_the_versions(states: list[str], data: st.DataObject) -> None:
    """Whatever had arrived in order is in order after any version was asked for, with that version among it."""
    kinds = {"pending": Status.PENDING, "failed": Status.FAILED, "arrived": Status.COMPLETED}
    records = [record(number, kinds[state]) for number, state in enumerate(states)]
    arrived = [each.version_id for each, state in zip(records, states, strict=True) if state == "arrived"]
    wanted = data.draw(st.sampled_from(records))
    site = list(arrived)  # the oldest first
    for each in to_put(records, SITE, wanted, arrived):
        site = [one for one in site if one != each.version_id] + [each.version_id]
    assert site == sorted(site)
    assert wanted.version_id in site
