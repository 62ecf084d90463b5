"""What is missing, different and extra at sites, on Spark and in plain Python: the same for generated histories."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from plans import generated
from replicated_keys import (
    BUCKETS,
    NORTH,
    RULES,
    SECOND_NS,
    SINCE,
    SOUTH,
    UID,
    Copy,
    Key,
    State,
    Version,
    histories,
    named,
)

from tidegate.core.replication.records import Status
from tidegate.pipeline.column_types import columns
from tidegate.pipeline.replication import comparison
from tidegate.pipeline.replication.backfilling import in_order
from tidegate.pipeline.replication.record_source import states_in
from tidegate.pipeline.replication.site_source import COPY_SCHEMA

SITES = [NORTH, SOUTH]
KEYS = 400


@pytest.fixture(scope="module")
def keys():
    return named(generated(histories(), KEYS))


@pytest.fixture(scope="module")
def frames(spark, keys):
    """Versions with their times, what is meant, the records' states, and the copies."""
    source, states, copies = source_frame(spark, keys), states_frame(spark, keys), copies_frame(spark, keys)
    versions = comparison.timed(source, states).cache()
    return versions, comparison.meant(versions, states, RULES, SITES).cache(), states, copies


def source_frame(spark, keys):
    rows = [row for key in keys for row in key.source_rows()]
    kinds = {
        "bucket_uid": str, "key": str, "version_id": str, "created_ns": int, "last_modified": str, "size": int,
        "etag": str,
    }  # fmt: skip
    shape = comparison.StructType(columns(**kinds)).simpleString().removeprefix("struct<").removesuffix(">")
    rest = "tags:map<string,string>,is_marker:boolean,is_latest:boolean,sequence:bigint"
    return spark.createDataFrame(rows, f"struct<{shape},{rest}>")


def states_frame(spark, keys):
    texts = [(record.to_json(),) for key in keys for record in key.records()]
    return states_in(spark.createDataFrame(texts, "value string"))


def copies_frame(spark, keys):
    return spark.createDataFrame([row for key in keys for row in key.site_rows()], COPY_SCHEMA)


def test_what_rules_mean_for_a_site_is_what_the_rules_say(keys, frames):
    found = sorted((row.key, row.version_id, row.site, row.site_bucket) for row in frames[1].collect())
    assert found == sorted((key.name, version.id, site, at) for key in keys for version, site, at, _ in key.meant())


def test_missing_are_versions_without_a_completed_record_whose_copy_is_there(keys, frames):
    _, wanted, _, copies = frames
    rows = comparison.missing_in(wanted, copies).collect()
    found = sorted((row.key, row.version_id, row.site, row.lack) for row in rows)
    assert found == sorted(each for key in keys for each in key.missing())
    assert {lack for *_, lack in found} == {lack.value for lack in comparison.Lack} - {comparison.Lack.SHARED.value}


def test_of_versions_whose_records_name_one_copy_only_the_oldest_is_there(spark):
    """A marker does not tell whose copy it is, so that a replicator could take one for the copy of several."""
    arrived = State(Status.COMPLETED, Copy())
    versions = [Version(number, SINCE + number, True, (), True, False, arrived, None) for number in range(4)]
    key = Key("new/markers", tuple(versions), ())
    records = [record.to_json().replace('"c2"', '"c1"') for record in key.records()]
    states = states_in(spark.createDataFrame([(text,) for text in records], "value string"))
    copies = copies_frame(spark, [key]).where("copy_id != 'c2'")
    wanted = comparison.meant(comparison.timed(source_frame(spark, [key]), states), states, RULES, [NORTH])
    missing = comparison.missing_in(wanted, copies).collect()
    assert [(row.version_id, row.lack) for row in missing] == [("v2", comparison.Lack.SHARED.value)]
    assert comparison.different_in(wanted, copies).collect() == []


def test_different_are_copies_that_are_not_what_their_records_say_or_out_of_order(keys, frames):
    _, wanted, _, copies = frames
    rows = comparison.different_in(wanted, copies).collect()
    found = sorted((row.key, row.version_id, row.site, row.difference) for row in rows)
    assert found == sorted(each for key in keys for each in key.different())
    assert {difference for *_, difference in found} == {each.value for each in comparison.Difference}


def test_extra_is_what_no_record_names(keys, frames):
    _, _, states, copies = frames
    rows = comparison.extra_in(states, copies).collect()
    found = sorted((row.key, row.copy_id, row.site) for row in rows)
    assert found == sorted(each for key in keys for each in key.extra())


def test_versions_without_an_event_get_times_that_keep_the_order_of_the_listing(keys, frames):
    times: dict[str, dict[str, int]] = defaultdict(dict)
    for row in frames[0].collect():
        times[row.key][row.version_id] = row.ts_ns
    for key in keys:
        in_order_of_listing = [version for version in key.versions if version.id in times[key.name]]
        given = [times[key.name][version.id] for version in in_order_of_listing]
        assert all(older < newer for older, newer in pairwise(given)), (key, given)
        for version, ts_ns in zip(in_order_of_listing, given, strict=True):
            if version.is_recorded:
                assert ts_ns == key.event_ns(version)
            else:
                assert abs(ts_ns - version.second * SECOND_NS) < 2 * SECOND_NS


def test_many_versions_of_one_second_stay_between_those_whose_times_are_known(spark):
    """Also where the clocks of gateway and store differ, so that a later version has an event of an earlier time."""

    def version(number, second, *, recorded):
        return Version(number, second, False, (), recorded, False, None, None)

    versions = [version(n, SINCE, recorded=n in (3, 40)) for n in range(50)]
    early = Key("new/early", (version(0, SINCE + 9, recorded=False), version(1, SINCE, recorded=True)), ())
    keys = [Key("new/many", tuple(versions), ()), early]
    rows = comparison.timed(source_frame(spark, keys), states_frame(spark, keys)).collect()
    for key in keys:
        times = {row.version_id: row.ts_ns for row in rows if row.key == key.name}
        given = [times[each.id] for each in key.versions]
        assert all(older < newer for older, newer in pairwise(given))


def test_older_are_versions_that_a_rule_matches_and_that_were_there_before_it(keys, frames):
    versions, wanted, _, _ = frames
    found = sorted((row.key, row.version_id) for row in comparison.older(versions, RULES, wanted, SITES).collect())
    expected = []
    for key in keys:
        sent = {version.id for version, *_ in key.meant()}
        expected += [
            (key.name, version.id)
            for version in key.versions
            if version.id not in sent
            and not (version.is_recorded and version.is_replica)
            and RULES.existing_targets(key.name, version.tags, is_marker=version.is_marker)
        ]
    assert found == sorted(expected)
    assert found


def test_what_is_queued_has_each_version_once_and_a_key_in_one_part_the_oldest_first(keys, frames):
    _, wanted, _, copies = frames
    missing = comparison.missing_in(wanted, copies)
    parts = in_order(missing).rdd.glom().collect()
    assert len([part for part in parts if part]) > 1
    where = defaultdict(set)
    sent = []
    for number, part in enumerate(parts):
        for row in part:
            where[row.key].add(number)
            sent += [(row.key, row.version_id, target.site, target.bucket) for target in row.targets]
        for older, newer in pairwise(part):
            assert (older.key.encode(), older.ts_ns) < (newer.key.encode(), newer.ts_ns)
    assert all(len(numbers) == 1 for numbers in where.values())
    assert len({(key, version_id) for key, version_id, *_ in sent}) == sum(map(len, parts))
    assert sorted(sent) == sorted((row.key, row.version_id, row.site, row.site_bucket) for row in missing.collect())


def test_the_records_of_sites_are_rows_and_a_replica_is_one_without_a_site(keys, frames):
    rows = frames[2].collect()
    expected = [
        (record.key, record.version_id, state.site if state else None)
        for key in keys
        for record in key.records()
        for state in (record.sites or (None,))
    ]
    assert sorted(((row.key, row.version_id, row.site) for row in rows), key=str) == sorted(expected, key=str)
    assert {row.bucket_uid for row in rows} == {UID}
    assert {row.site_bucket for row in rows if row.site} == set(BUCKETS.values())
