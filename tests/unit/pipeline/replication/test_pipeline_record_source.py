"""Records are read from the tables in ranges, each once."""

from __future__ import annotations

from contextlib import closing

import pytest

from tidegate import settings as settings_module
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.pipeline.audit.reference_source import InstallationPlace
from tidegate.pipeline.replication.record_source import recorded_states
from tidegate.settings import Settings

UIDS = [f"{digit}{'0' * 31}" for digit in "0123456789abcdef"] + ["z", "-"]
NAMES = [f"{folder}{number:03}é\n" for folder in ("", "a/", "ab/") for number in range(40)]


def record(uid, key, *sites):
    found = ReplicationRecord("p", "b", uid, key, "v1", 5, 1.0, size=3)
    for site in sites:
        found = found.with_state(SiteState(site, "at-site", Status.COMPLETED, 1.0, "c1", "ce"))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    data = tmp_path_factory.mktemp("records")
    with closing(SqliteTables(data / "tables.db")) as tables:
        for uid in UIDS:
            for name in NAMES:
                tables.put(record(uid, name).entry, record(uid, name, "north", "south").to_json())
        tables.put("rt:other", "not a record")
    return InstallationPlace(settings_module.dump(Settings()), str(data))


def test_the_records_of_all_buckets_are_read_once_by_site(spark, place):
    rows = recorded_states(spark, place).collect()
    expected = sorted((uid, name, site) for uid in UIDS for name in NAMES for site in ("north", "south"))
    assert sorted((row.bucket_uid, row.key, row.site) for row in rows) == expected
    assert {(row.ts_ns, row.size, row.status, row.copy_id, row.copy_etag) for row in rows} == {
        (5, 3, "COMPLETED", "c1", "ce")
    }


@pytest.mark.parametrize("bounds", [[], ["a/", "a/020", "ab"], ["zzz"]])
def test_those_of_one_bucket_are_cut_at_the_bounds_and_read_once(spark, place, bounds):
    frame = recorded_states(spark, place, bucket_uid=UIDS[3], bounds=bounds)
    assert frame.rdd.getNumPartitions() == len(bounds) + 1
    rows = frame.collect()
    assert sorted((row.key, row.site) for row in rows) == sorted(
        (name, site) for name in NAMES for site in ("north", "south")
    )
    assert {row.bucket_uid for row in rows} == {UIDS[3]}
