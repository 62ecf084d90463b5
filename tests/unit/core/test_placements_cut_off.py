"""Records of moved versions and the versions in the store, also where a gateway was killed between the two."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.listings import ListedVersion
from tidegate.core.placements import Placement, doubtful, merged, settled


def record(version_id: str = "v2", **fields: object) -> Placement:
    made = Placement(
        id="id", pool="pool", bucket="bucket", bucket_uid="uid", key="k", version_id=version_id, location="cold",
        data_key="data", size=3, etag="etag", modified="then", last_modified=100.0, storage_class="COLD", moved_ns=1,
        listed_etag="etag",
    )  # fmt: skip
    return replace(made, **fields)  # type: ignore[arg-type]


def stored(*versions: str, sizes: dict[str, int] | None = None) -> list[ListedVersion]:
    """Versions of a store by their ids, the newest first."""
    return [
        ListedVersion("k", name, number == 0, False, 100.0, "etag", (sizes or {}).get(name, 3), "STANDARD", "then")
        for number, name in enumerate(versions)
    ]


def shown(found: list[ListedVersion], records: list[Placement]) -> list[str]:
    return [version.version_id for version in merged(found, records)]


def test_a_stub_of_the_null_version_that_the_record_does_not_know_yet_is_its_stub() -> None:
    """Its data must not be released: the stub is not what a client has written."""
    moved = record("null")
    found = settled([moved], stored("null", sizes={"null": 0}), stub_names={"null": moved.stub_name})
    assert found.released == ()
    (kept,) = found.kept
    assert (kept.has_stub, kept.stub_id, kept.is_current, kept.has_original) == (True, "", True, False)
    assert found.promoted is None


def test_a_stub_with_an_id_that_the_record_does_not_know_yet_is_its_stub_and_the_original_goes() -> None:
    moved, versions = record(), stored("stub", "v2", "v1", sizes={"stub": 0})
    assert doubtful([moved], versions) == ["stub"]
    found = settled([moved], versions, stub_names={"stub": moved.stub_name})
    (kept,) = found.kept
    assert (kept.stub_id, kept.is_current, kept.has_original) == ("stub", True, True)
    assert (found.promoted, found.released, found.stale) == (None, (), ())
    assert shown(versions, [kept]) == ["v2", "v1"]


def test_a_stub_that_was_not_noted_down_is_found_below_what_a_client_wrote_since() -> None:
    moved, versions = record(), stored("v3", "stub", "v2", sizes={"stub": 0})
    assert doubtful([moved], versions) == ["v3", "stub"]
    found = settled([moved], versions, stub_names={"v3": "", "stub": moved.stub_name})
    (kept,) = found.kept
    assert (kept.stub_id, kept.is_current) == ("stub", False)
    assert shown(versions, [kept]) == ["v3", "v2"]


def test_a_former_stub_is_stale_and_not_shown() -> None:
    """Data that was moved back stands above the empty stub that it replaced, or the other way round."""
    moved = record(has_stub=True, stub_id="new", location="")
    versions = stored("new", "old", "v1", sizes={"old": 0})
    assert doubtful([moved], versions) == ["old"]
    assert settled([moved], versions, stub_names={"old": moved.stub_name}).stale == ("old",)
    unnoted = record(has_stub=True, stub_id="old")
    found = settled([unnoted], versions, stub_names={"new": unnoted.stub_name})
    assert ([kept.stub_id for kept in found.kept], found.stale) == (["new"], ("old",))


def test_a_stub_that_still_holds_data_though_the_version_lies_elsewhere_is_made_anew() -> None:
    moved = record(has_stub=True, stub_id="full")
    found = settled([moved], stored("full"), stub_names={})
    assert found.promoted == moved
    assert settled([moved], stored("full", sizes={"full": 0}), stub_names={}).promoted is None
    back = replace(moved, location="")
    assert settled([back], stored("full"), stub_names={}).promoted is None


def test_of_versions_that_are_no_candidates_nobody_is_asked() -> None:
    current = record(has_stub=True, stub_id="stub")
    versions = stored("v3", "stub", "v1", "v0", sizes={"stub": 0, "v3": 77, "v1": 77})
    assert doubtful([current], versions) == []
    assert doubtful([record("v1", is_current=False)], stored("v3", "v1", "v0")) == []
