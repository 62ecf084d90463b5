"""Landing: every record of the topic once, in the right columns and day; what is no event is set aside."""

from __future__ import annotations

import shutil

import pytest
from log_cases import DAY_NS, MIDNIGHT, NOW, PARTITIONS, TOPIC, Log, put
from msgspec.structs import replace

from tidegate.core.errors import Conflict, Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.core.shards import bucket_day, key_hash, shard
from tidegate.pipeline.log import landing, log_table
from tidegate.pipeline.log.event_columns import NS_PER_DAY

ODD_KEYS = ["a:b", "line\nbreak", "a/b/c", "sp ace+%2F", "é", "😀", "\u0000x", '"quoted\\"', "x" * 1024, "\u2028", ""]


@pytest.fixture(params=["without a job", "by Spark"])
def log(spark, tmp_path, monkeypatch, request):
    """What is landed is the same either way."""
    if request.param == "by Spark":
        monkeypatch.setattr(landing, "_FEW_ROWS", 0)
    opened = Log(spark, tmp_path)
    yield opened
    opened.close()


def test_an_event_comes_back_as_it_was_written(log):
    event = Event(
        MIDNIGHT + 5,
        EventKind.PUT,
        pool="p",
        bucket="b",
        bucket_uid="u",
        owner="o",
        key="k",
        version_id="v",
        size=7,
        etag="e",
        tags=(("team", "a=b"), ("ключ", "")),
        storage_class="GLACIER",
        upload_id="up",
        attributes=(("versioning", "Enabled"),),
        source="gateway:h:1/2",
        is_replica=True,
    )
    log.append(event)
    assert log.land().events == 1
    (row,) = log.rows()
    for name in Event.__struct_fields__:
        written = getattr(event, name)
        assert getattr(row, name) == (dict(written) if isinstance(written, tuple) else written), name
    assert row.day == "2024-10-04"
    assert log.topics.read(TOPIC, row.topic_partition, row.topic_offset, 1)[0].value == event.to_bytes()


def test_shard_and_hash_of_odd_keys_are_those_of_the_core(log):
    log.append(*(put(number, key=key) for number, key in enumerate(ODD_KEYS)))
    log.append(*(put(number) for number in range(200)))
    log.land()
    rows = log.rows()
    assert {row.key for row in rows} >= set(ODD_KEYS) - {""}
    for row in rows:
        assert (row.shard, row.key_hash) == (shard(row.bucket, row.key), key_hash(row.bucket, row.key))
        assert row.bucket_day == bucket_day(row.bucket_uid, row.ts_ns // NS_PER_DAY)


@pytest.mark.parametrize(
    ("ts_ns", "day"),
    [
        (MIDNIGHT - 1, "2024-10-03"),
        (MIDNIGHT, "2024-10-04"),
        (MIDNIGHT + DAY_NS - 1, "2024-10-04"),
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
    ],
)
def test_the_day_is_that_of_the_event_in_utc(log, ts_ns, day):
    log.append(put(1, ts_ns=ts_ns))
    log.land()
    assert [row.day for row in log.rows()] == [day]


def test_landing_again_adds_only_what_is_new(log):
    log.append(*(put(number) for number in range(50)))
    assert log.land().events == 50
    assert log.land().events == 0
    log.append(*(put(number) for number in range(50, 60)))
    assert log.land().events == 10
    assert log.sizes() == list(range(60))


def test_before_each_commit_it_is_told_how_old_the_events_of_each_bucket_are(log):
    told = []

    def before_commit(oldest):
        told.append((dict(oldest), log.table.manifest().rows))

    log.append(put(7), put(3), put(9), replace(put(5), bucket="other", bucket_uid="other"))
    log.land(before_commit=before_commit)
    assert told == [({"uid": MIDNIGHT + 3, "other": MIDNIGHT + 5}, 0)]
    log.append(*(put(number) for number in range(20, 30)))
    log.land(before_commit=before_commit, commit_records=4)
    assert min(oldest["uid"] for oldest, _ in told[1:]) == MIDNIGHT + 20
    assert [rows for _, rows in told[1:]] == [4, 8, 12]
    log.land(before_commit=before_commit)
    assert len(told) == 4, "nothing was landed"


@pytest.mark.parametrize("few_rows", [0, 10])
def test_many_small_commits_land_the_same_as_one(log, monkeypatch, few_rows):
    """By several tasks each, and without a job: 17 records, and the last 6."""
    monkeypatch.setattr(landing, "_FEW_ROWS", few_rows)
    monkeypatch.setattr(landing, "_ROWS_PER_TASK", 8)
    log.append(*(put(number) for number in range(40)))
    assert log.land(commit_records=17).events == 40
    assert log.sizes() == list(range(40))


def test_both_ways_land_the_same_rows(spark, tmp_path, monkeypatch):
    tags = (("team", "a=b"), ("ключ", ""))
    events = [put(number, key=key, tags=tags) for number, key in enumerate(ODD_KEYS)]
    events += [replace(put(1), size=None, ts_ns=ts_ns) for ts_ns in (0, -1, MIDNIGHT - 1, MIDNIGHT, 2**62)]
    events += [replace(put(2), operation=kind, attributes=(("versioning", "Enabled"),)) for kind in EventKind]
    raw = [
        b'{"ts_ns":1,"ts_ns":2,"operation":"put","pool":"p","bucket":"b","bucket_uid":"u","unknown":[1]}',
        b'{"ts_ns":3,"operation":"put","pool":"p","bucket":"b","bucket_uid":"u","key":"\\ud83d\\ude00"}',
    ]
    landed = []
    for few_rows in (0, 50_000):
        monkeypatch.setattr(landing, "_FEW_ROWS", few_rows)
        data = tmp_path / str(few_rows)
        data.mkdir()
        log = Log(spark, data)
        log.append(*events)
        log.append_raw(*((f"b/{number}", value) for number, value in enumerate(raw)))
        log.land()
        landed.append(sorted(map(str, log.rows())))
        log.close()
    assert landed[0] == landed[1]
    assert len(landed[0]) == len(events) + len(raw)


def test_records_that_are_no_events_are_set_aside_as_they_were_and_stop_nothing(log):
    bad = [
        b"",
        b"junk",
        b"\xff\xfe",
        b"[]",
        b'"text"',
        b"null",
        b'{"ts_ns":"1","operation":"put","pool":"p","bucket":"b","bucket_uid":"u"}',
        b'{"ts_ns":99999999999999999999,"operation":"put","pool":"p","bucket":"b","bucket_uid":"u"}',
        b'{"ts_ns":1,"operation":"explode","pool":"p","bucket":"b","bucket_uid":"u"}',
        b'{"ts_ns":1,"operation":"put","pool":"p","bucket":"b"}',
        b'{"ts_ns":1,"operation":"put","pool":"p","bucket":"b","bucket_uid":"u"',
    ]
    log.append(put(1))
    log.append_raw(*((f"bad{number}", value) for number, value in enumerate(bad)))
    log.append(put(2))
    landed = log.land()
    assert (landed.events, landed.rejected) == (2, len(bad))
    assert log.sizes() == [1, 2]
    aside = log.spark.read.parquet(str(log.table.path / "_rejected")).collect()
    assert sorted(bytes(row.value) for row in aside) == sorted(bad)
    assert all(row.reason for row in aside)
    assert log.land().rejected == 0


def test_fields_that_a_newer_version_adds_and_those_an_older_one_lacks_are_no_reason_to_reject(log):
    log.append_raw(("k", b'{"ts_ns":1,"operation":"put","pool":"p","bucket":"b","bucket_uid":"u","colour":{"x":[1]}}'))
    assert log.land().events == 1
    (row,) = log.rows()
    assert (row.key, row.size, row.tags, row.storage_class, row.is_replica) == ("", None, {}, "", False)


def test_a_json_object_that_names_a_key_twice_is_read_as_python_reads_it(log):
    value = b'{"ts_ns":1,"operation":"put","pool":"p","bucket":"b","bucket_uid":"u","tags":{"a":"1","a":"2"}}'
    log.append_raw(("k", value))
    log.land()
    assert [row.tags for row in log.rows()] == [dict(Event.from_bytes(value).tags)]


def test_the_manifest_names_each_file_with_its_offsets_times_and_rows(log):
    log.append(*(put(number) for number in range(30)))
    log.land()
    known = log.table.manifest()
    assert log.parquet_files() == {file.path for file in known.files}
    (file,) = known.files
    assert (file.rows, file.first_ns, file.last_ns, file.day) == (30, MIDNIGHT, MIDNIGHT + 29, "2024-10-04")
    bounds = log.topics.bounds(TOPIC)
    expected = [(number, 0, end - 1) for number, (_, end) in enumerate(bounds) if end]
    assert [(found.partition, found.first, found.last) for found in file.offsets] == expected
    assert known.next_offsets == tuple(end for _, end in bounds)


class Killed(BaseException):
    """Stands for the end of the process: nothing that follows runs."""


STEPS = [
    (landing, "_stage"),
    (landing, "write_by_day"),
    (log_table, "_move"),
    (log_table, "_described"),
    (log_table.manifest, "store"),
    (log_table, "sync_directory"),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("module", "step"), STEPS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_landing_killed_at_any_step_is_repeated_without_loss_or_doubling(log, monkeypatch, module, step, when):
    log.append(*(put(number) for number in range(10)))
    log.land()
    log.append(*(put(number) for number in range(10, 20)), put(20, ts_ns=MIDNIGHT + DAY_NS))
    log.append_raw(("bad", b"junk"))
    original = getattr(module, step)

    def killed(*arguments, **options):
        if when == "after":
            original(*arguments, **options)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, step, killed)
        with pytest.raises(Killed):
            log.land()
    assert set(log.sizes()) >= set(range(10))
    log.land()
    assert log.sizes() == list(range(21))
    known = log.table.manifest()
    assert known.rejected_rows == 1
    assert log.parquet_files() == {file.path for file in (*known.files, *known.rejected)}


def test_records_that_the_topic_forgot_before_they_were_landed_move_the_horizon(log):
    log.append(*(put(number) for number in range(30)))
    log.land()
    assert log.table.manifest().horizon_ns == 0
    log.append(*(put(number) for number in range(30, 60)))
    log.trim(before=15)
    oldest = [log.topics.read(TOPIC, partition, 15, 1) for partition in range(PARTITIONS)]
    log.land()
    assert log.table.manifest().horizon_ns >= max(int(found[0].appended_at * 10**9) for found in oldest if found)


def test_a_topic_that_forgot_everything_moves_the_horizon_to_now(log):
    log.append(*(put(number) for number in range(30)))
    log.trim(before=1000)
    assert log.land().events == 0
    assert log.table.manifest().horizon_ns == NOW


def test_another_topic_under_the_same_name_is_refused(log):
    log.append(*(put(number) for number in range(30)))
    log.land()
    log.close()
    shutil.rmtree(log.data / "topics")
    again = Log(log.spark, log.data)
    with pytest.raises(Conflict, match="another topic"):
        again.land()
    again.close()


def test_two_landings_at_once_are_refused(log):
    log.append(put(1))
    with log.table.changing(), pytest.raises(Conflict, match="another process"):
        log.land()


def test_a_damaged_manifest_is_told_with_what_to_do(log):
    log.append(put(1))
    log.land()
    (log.table.path / "_manifest.json").write_text("{")
    with pytest.raises(Unavailable, match="landed anew"):
        log.land()
