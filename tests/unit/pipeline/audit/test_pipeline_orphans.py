"""Orphans and missing data, as frames: from what was listed and from what the tables have."""

from __future__ import annotations

from contextlib import closing

from hypothesis import strategies as st
from plans import generated

from tidegate import settings as settings_module
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.placements import Placement
from tidegate.pipeline.audit.location_source import DATA_SCHEMA
from tidegate.pipeline.audit.orphans import missing_in, orphans_in
from tidegate.pipeline.audit.reference_source import REFERENCE_SCHEMA, InstallationPlace, copies, placements
from tidegate.settings import Settings

NOW = 1_000


def placement(uid, key, location, data_key):
    return Placement(
        id="i",
        pool="p",
        bucket="b",
        bucket_uid=uid,
        key=key,
        version_id="v",
        location=location,
        data_key=data_key,
        size=1,
        etag="e",
        modified="",
        last_modified=1.0,
        storage_class="COLD",
        moved_ns=1,
    )


def test_orphans_are_old_data_without_a_reference_and_missing_are_placements_without_data(spark):
    """Over all cases at once: each has data keys of its own."""
    chances = st.tuples(st.booleans(), st.sampled_from(["", "copy", "placement"]), st.sampled_from([0, NOW - 1, NOW]))
    cases = [(f"p/u/{number:032x}", *case) for number, case in enumerate(generated(chances, 200))]
    data = [(key, 1, "e", written) for key, is_there, _, written in cases if is_there]
    references = [(key, kind, f"pl:{key}", "b", "u", "k", "v") for key, _, kind, _ in cases if kind]
    listed = spark.createDataFrame(data, DATA_SCHEMA)
    # Some are referred to twice: a copy's entry goes after its placement stands.
    referred = spark.createDataFrame(references + references[:50], REFERENCE_SCHEMA)
    orphans = [row.data_key for row in orphans_in(listed, referred, before_ns=NOW).collect()]
    assert sorted(orphans) == [key for key, is_there, kind, written in cases if is_there and not kind and written < NOW]
    missing = {row.data_key for row in missing_in(listed, referred).collect()}
    assert missing == {key for key, is_there, kind, _ in cases if not is_there and kind == "placement"}


def test_references_are_all_that_the_tables_have_for_the_location(spark, tmp_path):
    uids = [f"{digit}{'0' * 31}" for digit in "0123456789abcdef"] + ["0" * 31 + "a", "z", "-"]
    placed = {f"p/{uid}/{number:032x}": uid for uid in uids for number in range(70)}
    with closing(SqliteTables(tmp_path / "tables.db")) as tables:
        for number, (data_key, uid) in enumerate(placed.items()):
            record = placement(uid, f"k{number}", "cold", data_key)
            tables.put(record.entry, record.to_json())
            other = placement(uid, f"other{number}", "colder", data_key)
            tables.put(other.entry, other.to_json())
        for name in ("cold/p/u/1", "cold/p/u/2", "colder/p/u/3"):
            tables.put(f"cp:{name}", "{}")
        place = InstallationPlace(settings_module.dump(Settings()), str(tmp_path))
        found = placements(spark, place, "cold").collect()
        assert {row.data_key: row.bucket_uid for row in found} == placed
        assert len(found) == len(placed)
        assert {row.kind for row in found} == {"placement"}
        assert sorted((row.data_key, row.kind) for row in copies(spark, place, "cold").collect()) == [
            ("p/u/1", "copy"),
            ("p/u/2", "copy"),
        ]
