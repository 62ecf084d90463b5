"""Inventory reports: what their files say of versions, and which reports are not used."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from inventory_reports import CSV_COLUMNS, CURRENT_ONLY, LOCKS, report, written
from memory_store import MemoryStore

from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import latest_moment_ns
from tidegate.pipeline.walk.inventory import check, choose, open_report
from tidegate.pipeline.walk.inventory_rows import report_rows
from tidegate.pipeline.walk.listed_rows import Rows

CREATED_NS = 1_800_000_000_000_000_000
HOUR_NS = 3_600_000_000_000
COLUMNS = (*CSV_COLUMNS, "StorageClass")
FORMS = pytest.mark.parametrize("parquet", [False, True], ids=["CSV", "Parquet"])
HARD_KEYS = ("plain", "a b+c%d", "колонка:ключ", "😀/line\nbreak", '"quoted",comma', "tab\tnull\x01", "k" * 1024)


def row(key, **values):
    return {
        "Bucket": "photos",
        "Key": key,
        "VersionId": "v1",
        "IsLatest": True,
        "IsDeleteMarker": False,
        "Size": 7,
        "LastModifiedDate": "2026-01-30T10:20:30.000Z",
        "ETag": "e1",
        "StorageClass": "STANDARD",
    } | values


def rows_of(directory: Path, columns, *parts, parquet=False, prefix="", spoil=None):
    contents = report("photos", columns, parts, created_ns=CREATED_NS, parquet=parquet)
    for key in list(contents)[1:] if spoil else ():
        contents[key] = spoil(contents[key])
    opened = open_report(written(directory, contents), MemoryStore())
    check(opened, "photos", MemoryStore())
    maker = Rows("uid", "photos", "owner")
    batches = [batch for file in opened.files for batch in report_rows(maker, opened, file, MemoryStore(), prefix)]
    return pa.Table.from_batches(batches).to_pylist()


@FORMS
def test_versions_come_out_as_a_listing_would_show_them(tmp_path, parquet):
    newest, marker = row("a", VersionId=""), row("b", Size=None, ETag=None, IsDeleteMarker=True, VersionId="v2")
    found = rows_of(tmp_path, COLUMNS, [newest], [marker], parquet=parquet)
    moment = latest_moment_ns("2026-01-30T10:20:30.000Z")
    common = {"bucket_uid": "uid", "bucket": "photos", "owner": "owner", "created_ns": moment, "resolved": True}
    common |= {"is_latest": True, "legal_hold": False, "replication_pending": False, "retained_until_ns": None}
    common |= {"reported_ns": CREATED_NS, "problem": None, "tags": [], "last_modified": "2026-01-30T10:20:30.000Z"}
    first = common | {"key": "a", "version_id": "null", "size": 7, "etag": "e1", "is_marker": False}
    second = common | {"key": "b", "version_id": "v2", "size": 0, "etag": "", "is_marker": True}
    assert [{name: line[name] for name in first} for line in found] == [first, second]


@FORMS
def test_keys_come_out_whatever_characters_they_have(tmp_path, parquet):
    assert [line["key"] for line in rows_of(tmp_path, COLUMNS, [*map(row, HARD_KEYS)], parquet=parquet)] == [*HARD_KEYS]


@FORMS
def test_only_keys_with_the_prefix_come_out(tmp_path, parquet):
    found = rows_of(tmp_path, COLUMNS, [row("a/1"), row("b/1"), row("a/2")], parquet=parquet, prefix="a/")
    assert [line["key"] for line in found] == ["a/1", "a/2"]


@FORMS
def test_locks_and_replication_are_known_where_the_report_has_them(tmp_path, parquet):
    until = "2026-03-01T00:00:00.000Z"
    locked = row("a", ObjectLockRetainUntilDate=until, ObjectLockLegalHoldStatus="On", ReplicationStatus="PENDING")
    free = row("b", ObjectLockLegalHoldStatus="Off", ReplicationStatus="COMPLETED")
    found = rows_of(tmp_path, (*COLUMNS, *LOCKS), [locked, free], parquet=parquet)
    values = [(line["retained_until_ns"], line["legal_hold"], line["replication_pending"]) for line in found]
    assert values == [(1_772_323_200_000_000_000, True, True), (None, False, False)]


def test_times_mean_at_the_latest_the_end_of_their_last_digit(tmp_path):
    texts = ["2026-01-30T10:20:30Z", "2026-01-30T10:20:30.000Z", "2026-01-30T10:20:30.250Z"]
    found = rows_of(tmp_path, COLUMNS, [row("k", LastModifiedDate=text) for text in texts])
    assert [line["created_ns"] for line in found] == [latest_moment_ns(text) for text in texts]


@FORMS
def test_a_report_of_current_versions_has_the_null_version_of_each_key(tmp_path, parquet):
    (found,) = rows_of(tmp_path, (*CURRENT_ONLY, "StorageClass"), [row("a")], parquet=parquet)
    assert (found["version_id"], found["is_latest"], found["is_marker"]) == ("null", True, False)


@FORMS
def test_a_file_that_is_not_what_the_manifest_means_is_refused(tmp_path, parquet):
    with pytest.raises(InvalidInput, match="checksum"):
        rows_of(tmp_path, COLUMNS, [row("a")], parquet=parquet, spoil=lambda content: content + b"x")


@FORMS
def test_rows_of_another_bucket_and_rows_without_a_key_are_refused(tmp_path, parquet):
    for wrong in (row("a", Bucket="other"), row("")):
        with pytest.raises(InvalidInput, match="cannot be understood"):
            rows_of(tmp_path, COLUMNS, [row("b"), wrong], parquet=parquet)


@pytest.mark.parametrize("value", ["yesterday", ""])
def test_a_time_that_is_none_is_refused(tmp_path, value):
    with pytest.raises(InvalidInput, match="cannot be understood"):
        rows_of(tmp_path, COLUMNS, [row("a", LastModifiedDate=value)])


def test_a_report_without_columns_that_decisions_need_says_which_to_add(tmp_path):
    with pytest.raises(InvalidInput, match="lacks Size, ETag: add these fields"):
        rows_of(tmp_path, [name for name in COLUMNS if name not in ("Size", "ETag")], [row("a")])


def manifest(directory: Path, **changes):
    address = written(directory, report("photos", COLUMNS, [[row("a")]], created_ns=CREATED_NS))
    values = json.loads(Path(address).read_text()) | changes
    Path(address).write_text(json.dumps(values))
    return address


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fileFormat": "ORC"}, "has the format ORC: have it written as CSV or Parquet"),
        ({"files": [{"key": "../../etc/passwd", "size": 1, "MD5checksum": ""}]}, "not the manifest"),
        ({"files": [{"key": "data/1"}]}, "not the manifest"),
        ({"creationTimestamp": "soon"}, "not the manifest"),
    ],
)
def test_a_manifest_that_cannot_be_used_says_why(tmp_path, changes, said):
    with pytest.raises(InvalidInput, match=said):
        open_report(manifest(tmp_path, **changes), MemoryStore())


def test_a_missing_manifest_and_a_missing_file_are_told(tmp_path):
    with pytest.raises(Unavailable, match="cannot be read"):
        open_report(str(tmp_path / "manifest.json"), MemoryStore())
    opened = open_report(manifest(tmp_path), MemoryStore())
    (tmp_path / opened.files[0].key).unlink()
    with pytest.raises(Unavailable, match="is not beside"):
        list(report_rows(Rows("u", "photos", "o"), opened, opened.files[0], MemoryStore(), ""))


@pytest.mark.parametrize(
    ("age_ns", "is_used"),
    [(0, True), (48 * HOUR_NS, True), (48 * HOUR_NS + 10**9, False), (-(10**9), False)],
)
def test_a_report_is_chosen_while_it_is_young_enough(tmp_path, age_ns, is_used):
    address = manifest(tmp_path)
    chosen = choose(
        {"photos": address}, "photos", MemoryStore, max_age_hours=48, now_ns=CREATED_NS + age_ns, log_horizon_ns=0
    )
    assert (chosen.address == address, bool(chosen.problem)) == (is_used, not is_used)


def test_of_a_folder_of_reports_the_newest_is_chosen(tmp_path):
    times = {"max_age_hours": 48, "now_ns": CREATED_NS, "log_horizon_ns": 0}
    folder = f"{tmp_path}/reports/photos/daily/"
    assert "cannot be read" in choose({"photos": folder}, "photos", MemoryStore, **times).problem
    (tmp_path / "reports/photos/daily/data").mkdir(parents=True)
    assert "no folder with a new enough" in choose({"photos": folder}, "photos", MemoryStore, **times).problem
    for age_hours in (50, 2, 26):
        created_ns = CREATED_NS - age_hours * HOUR_NS
        newest = written(tmp_path, report("photos", COLUMNS, [[row("a")]], created_ns=created_ns))
        if age_hours == 2:
            expected = newest
    assert choose({"photos": folder}, "photos", MemoryStore, **times).address == expected


def test_a_report_of_current_versions_is_not_chosen_for_a_bucket_that_has_others(tmp_path):
    contents = report("photos", (*CURRENT_ONLY, "StorageClass"), [[row("a")]], created_ns=CREATED_NS)
    inventories = {"photos": written(tmp_path, contents)}
    times = {"max_age_hours": 48, "now_ns": CREATED_NS, "log_horizon_ns": 0}
    assert choose(inventories, "photos", MemoryStore, **times).address
    for state in (Versioning.ENABLED, Versioning.SUSPENDED):
        chosen = choose(inventories, "photos", lambda state=state: MemoryStore(state=state), **times)
        assert not chosen.address and "have all versions included" in chosen.problem


def test_a_bucket_without_a_report_or_with_that_of_another_is_listed(tmp_path):
    address = manifest(tmp_path)
    times = {"max_age_hours": 48, "now_ns": CREATED_NS, "log_horizon_ns": 0}
    assert choose({"photos": address}, "other", MemoryStore, **times).problem == ""
    foreign = choose({"other": address}, "other", MemoryStore, **times)
    assert foreign.address == ""
    assert "is one of the bucket photos, not of other" in foreign.problem


@pytest.mark.parametrize(("horizon_ns", "is_used"), [(CREATED_NS - HOUR_NS, True), (CREATED_NS - HOUR_NS + 1, False)])
def test_a_report_is_chosen_if_the_log_tells_what_changed_since(tmp_path, horizon_ns, is_used):
    address = manifest(tmp_path)
    times = {"max_age_hours": 48, "now_ns": CREATED_NS, "log_horizon_ns": horizon_ns}
    chosen = choose({"photos": address}, "photos", MemoryStore, **times)
    assert (bool(chosen.address), bool(chosen.problem)) == (is_used, not is_used)
    assert chosen.until_ns == (CREATED_NS - HOUR_NS if is_used else 0)
