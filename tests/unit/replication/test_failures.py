"""The list of failures, on real tables: its pages, its filters, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from failed_versions import fail, make_bucket, record_of, store, with_status

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import InvalidInput
from tidegate.core.replication.failed_keys import FAILED, FailedKey
from tidegate.core.replication.records import SiteState, Status
from tidegate.ports import Tables
from tidegate.replication.failures import MOST_LOOKED_AT, PAGE, FailureReader, Selection

ODD_KEYS = ["a:b", ":", "a:b:c:d", "dir/é/ü", "line\nbreak", "🌊" * 256, "k" * 1024, " ", "%3A", "a\0b", '"', "null"]


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    made = SqliteTables(tmp_path / "tables.db")
    make_bucket(made, "photos", "uid")
    yield made
    made.close()


def listed(tables: Tables, selection: Selection = Selection()) -> list[FailedKey]:  # noqa: B008  it is frozen
    found: list[FailedKey] = []
    marker = ""
    while True:
        page = FailureReader(tables).page(selection, marker)
        assert len(page.failures) <= PAGE
        found += [failure.failed for failure in page.failures]
        marker = page.next_marker
        if not marker:
            return found


@pytest.mark.parametrize("key", ODD_KEYS, ids=ascii)
def test_a_failure_is_listed_whatever_its_key_holds(tables: Tables, key: str) -> None:
    failed = FailedKey("photos", key, "v1", "paris")
    record = fail(tables, failed)
    assert listed(tables) == [failed]
    assert listed(tables, Selection(bucket="photos", key=key)) == [failed]
    found = FailureReader(tables).page(Selection(bucket="photos", key=key, version_id="v1")).failures
    assert [(each.failed, each.record) for each in found] == [(failed, record)]


def test_pages_lead_over_keys_that_no_marker_could_hold_as_they_are(tables: Tables) -> None:
    wanted = {FailedKey("photos", key, "v1", "paris") for key in ODD_KEYS}
    for failed in wanted:
        fail(tables, failed)
    reader = FailureReader(tables)
    found = []
    for last in sorted(wanted, key=lambda failed: failed.entry.encode()):
        page = reader.page(Selection(key=last.key, bucket="photos"))
        found += [failure.failed for failure in page.failures if failure.failed.key == last.key]
    assert set(found) == wanted


def test_each_filter_leaves_out_what_it_does_not_name(tables: Tables) -> None:
    make_bucket(tables, "films", "other")
    here = [FailedKey("photos", key, version, site) for key in ("a", "a:v1", "b") for version in ("v1", "v2")
            for site in ("oslo", "paris")]  # fmt: skip
    for failed in here:
        fail(tables, failed)
    # One record has one site here, so that each is told of one.
    for key in ("a", "a:v1", "b"):
        for version in ("v1", "v2"):
            states = [SiteState(site, "replicas", Status.FAILED, 1.0) for site in ("oslo", "paris")]
            store(tables, record_of(FailedKey("photos", key, version, "oslo"), *states))
    elsewhere = FailedKey("films", "a", "v1", "paris")
    fail(tables, elsewhere, uid="other")
    assert set(listed(tables)) == {*here, elsewhere}
    assert set(listed(tables, Selection(bucket="photos"))) == set(here)
    assert set(listed(tables, Selection(site="oslo"))) == {each for each in here if each.site == "oslo"}
    for key in ("a", "a:v1", "b"):
        of_key = {each for each in here if each.key == key}
        assert set(listed(tables, Selection("photos", key))) == of_key
        assert set(listed(tables, Selection("photos", key, "v1"))) == {
            each for each in of_key if each.version_id == "v1"
        }
        assert set(listed(tables, Selection("photos", key, "v1", "oslo"))) == {FailedKey("photos", key, "v1", "oslo")}


def test_a_filter_without_the_name_that_it_needs_is_refused() -> None:
    with pytest.raises(InvalidInput, match="name the bucket"):
        Selection(key="a")
    with pytest.raises(InvalidInput, match="bucket and key"):
        Selection(bucket="photos", version_id="v1")


def test_an_entry_whose_version_is_gone_or_has_not_failed_is_left_out(tables: Tables) -> None:
    arrived, pending, gone = (FailedKey("photos", key, "v1", "paris") for key in ("arrived", "pending", "gone"))
    store(tables, with_status(fail(tables, arrived), "paris", Status.COMPLETED, 1.0))
    store(tables, with_status(fail(tables, pending), "paris", Status.PENDING, 1.0))
    tables.delete(fail(tables, gone).entry)
    tables.put(FailedKey("deleted-bucket", "a", "v1", "paris").entry, "")
    tables.put(FAILED + "not-an-entry", "")
    assert listed(tables) == []
    assert listed(tables, Selection("photos", "pending", "v1")) == []


def test_entries_of_an_earlier_bucket_of_the_same_name_are_left_out(tables: Tables) -> None:
    fail(tables, FailedKey("photos", "a", "v1", "paris"))
    make_bucket(tables, "photos", "another")
    assert listed(tables) == []


def test_a_page_ends_when_enough_was_looked_at_and_the_next_goes_on_there(tables: Tables) -> None:
    entries = {FailedKey("photos", f"{number:06}", "v1", "paris").entry: "" for number in range(MOST_LOOKED_AT + 5)}
    tables.change(dict(entries))
    wanted = FailedKey("photos", "zebra", "v1", "paris")
    fail(tables, wanted)
    first = FailureReader(tables).page(Selection())
    assert (first.failures, bool(first.next_marker)) == ((), True)
    assert listed(tables) == [wanted]


def test_a_full_page_that_is_the_last_has_no_marker(tables: Tables) -> None:
    for number in range(PAGE):
        fail(tables, FailedKey("photos", f"{number:04}", "v1", "paris"))
    page = FailureReader(tables).page(Selection())
    assert (len(page.failures), page.next_marker) == (PAGE, "")
    fail(tables, FailedKey("photos", "one more", "v1", "paris"))
    page = FailureReader(tables).page(Selection())
    assert (len(page.failures), bool(page.next_marker)) == (PAGE, True)


def test_a_page_of_a_few_among_many_others_takes_few_scans_and_goes_on_behind_the_last_of_them(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {FailedKey("photos", f"{number:06}", "v1", "oslo").entry: "" for number in range(2 * PAGE)}
    tables.change(dict(others))
    wanted = [FailedKey("photos", key, "v1", "paris") for key in ("000000", "y", "z")]
    for failed in wanted:
        fail(tables, failed)
    scans: list[str] = []
    scan = tables.scan

    def counted(prefix: str, **options: Any) -> list[tuple[str, str]]:
        scans.append(prefix)
        return scan(prefix, **options)

    monkeypatch.setattr(tables, "scan", counted)
    first = FailureReader(tables).page(Selection(site="paris"), most=2)
    assert [failure.failed for failure in first.failures] == wanted[:2]
    assert len(scans) <= 3
    rest = FailureReader(tables).page(Selection(site="paris"), first.next_marker, most=2)
    assert [failure.failed for failure in rest.failures] == wanted[2:] and not rest.next_marker


@pytest.mark.parametrize("marker", ["%%%", "a", "é", "_w"])
def test_a_marker_that_no_page_has_given_is_refused(tables: Tables, marker: str) -> None:
    with pytest.raises(InvalidInput, match="NextMarker"):
        FailureReader(tables).page(Selection(), marker)
