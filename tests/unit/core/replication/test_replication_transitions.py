"""What statuses make of a record, and what is counted of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.core.replication.messages import StatusUpdate
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.core.replication.transitions import arrivals, updated

PENDING = ReplicationRecord(
    "p", "b", "uid", "k", "v", ts_ns=1, last_modified=1.0, size=5,
    sites=(SiteState("one", "there", Status.PENDING, 1.0), SiteState("two", "there", Status.PENDING, 1.0)),
)  # fmt: skip


def update(status: Status, site: str = "one", **fields: Any) -> StatusUpdate:
    return StatusUpdate(
        bucket="b", bucket_uid="uid", key="k", version_id="v", site=site, status=status, at=9.0, **fields
    )


def test_a_version_that_arrived_has_the_id_of_its_copy() -> None:
    after = updated(PENDING, update(Status.COMPLETED, replica_version_id="c", replica_etag="e"))
    assert after.at("one") == SiteState("one", "there", Status.COMPLETED, 9.0, "c", "e")
    assert after.at("two") == PENDING.at("two")
    assert (after.status, arrivals(PENDING, after)) == (Status.PENDING, {"one": 1})


def test_a_version_that_turns_out_to_be_a_replica_goes_nowhere() -> None:
    after = updated(PENDING, update(Status.REPLICA))
    assert (after.is_replica, after.sites, after.status) == (True, (), Status.REPLICA)
    assert updated(after, update(Status.COMPLETED, replica_version_id="c")) == after


def test_the_same_status_once_more_changes_nothing() -> None:
    assert updated(PENDING, update(Status.PENDING)) == PENDING
    after = updated(PENDING, update(Status.COMPLETED, replica_version_id="c"))
    again = updated(after, replace_at(update(Status.COMPLETED, replica_version_id="c"), 20.0))
    assert (again, arrivals(after, again)) == (after, {})


def replace_at(message: StatusUpdate, at: float) -> StatusUpdate:
    return StatusUpdate(**{name: getattr(message, name) for name in message.__struct_fields__} | {"at": at})


def test_a_version_that_was_put_again_has_the_id_of_its_new_copy() -> None:
    after = updated(PENDING, update(Status.COMPLETED, replica_version_id="c"))
    again = updated(after, update(Status.COMPLETED, replica_version_id="d"))
    state = again.at("one")
    assert state is not None
    assert (state.replica_version_id, arrivals(after, again)) == ("d", {})
    later = updated(again, replace_at(update(Status.COMPLETED, replica_version_id="e"), 20.0)).at("one")
    assert later is not None and later.since == 20.0


def test_a_copy_is_known_while_its_tags_are_on_their_way_or_have_failed() -> None:
    after = updated(PENDING, update(Status.COMPLETED, replica_version_id="c"))
    again = updated(updated(after, update(Status.PENDING)), update(Status.FAILED, reason="away"))
    assert again.at("one") == SiteState("one", "there", Status.FAILED, 9.0, "c", "", "away")
    assert arrivals(after, again) == {"one": -1}


def test_a_version_that_goes_to_another_bucket_has_no_copy_there_and_news_of_the_former_one_is_not_heard() -> None:
    after = updated(PENDING, update(Status.COMPLETED, replica_version_id="c", site_bucket="there"))
    moved = updated(after, update(Status.PENDING, site_bucket="elsewhere"))
    assert moved.at("one") == SiteState("one", "elsewhere", Status.PENDING, 9.0)
    assert arrivals(after, moved) == {"one": -1}
    late = update(Status.COMPLETED, replica_version_id="c", site_bucket="there")
    assert updated(moved, late) == moved
    assert updated(moved, update(Status.FAILED, reason="away", site_bucket="there")) == moved


def test_a_retry_forgets_the_reason() -> None:
    failed = updated(PENDING, update(Status.FAILED, reason="away"))
    state = updated(failed, update(Status.PENDING, is_retry=True)).at("one")
    assert state is not None
    assert (state.status, state.reason) == (Status.PENDING, "")


def test_a_site_that_a_record_does_not_know_is_added_with_its_bucket() -> None:
    after = updated(PENDING, update(Status.PENDING, site="three", site_bucket="elsewhere"))
    assert after.at("three") == SiteState("three", "elsewhere", Status.PENDING, 9.0)
    assert updated(PENDING, update(Status.PENDING, site="three")) == PENDING


def test_a_replica_stays_one() -> None:
    replica = replace(PENDING, is_replica=True, sites=())
    assert updated(replica, update(Status.COMPLETED, site_bucket="there")) == replica


def test_a_version_that_is_gone_counts_no_more() -> None:
    after = updated(PENDING, update(Status.COMPLETED, replica_version_id="c"))
    assert arrivals(after, None) == {"one": -1}
    assert arrivals(PENDING, None) == {}
