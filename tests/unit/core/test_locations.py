"""What a location may be, and which one serves a storage class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidegate.core.errors import InvalidInput
from tidegate.core.locations import Location, check_location, complete_prefix, served_classes, serving

COLD = Location(
    name="cold",
    endpoint="https://s3.example.org",
    bucket="archive",
    access_key="KEY",
    secret="sealed",
    created_at=2.0,
    prefix="tidegate/",
    storage_classes=("GLACIER", "cold"),
)


def test_a_sound_location_is_given_back_and_survives_being_stored() -> None:
    assert check_location(COLD, [COLD]) is COLD
    assert Location.from_json(COLD.to_json()) == COLD


@pytest.mark.parametrize("name", ["a", "9", "a-b", "x" * 24])
def test_names_within_bounds_are_taken(name: str) -> None:
    check_location(replace(COLD, name=name))


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "x" * 25},
        {"name": "Cold"},
        {"name": "-cold"},
        {"name": "cold/er"},
        {"endpoint": ""},
        {"endpoint": "s3.example.org"},
        {"endpoint": "ftp://s3.example.org"},
        {"endpoint": "https://s3.example.org/path"},
        {"endpoint": "https://s3.example.org?query"},
        {"endpoint": "https://user:password@s3.example.org"},
        {"endpoint": "https://s3.example.org:99999"},
        {"endpoint": "https://s3.example.org:port"},
        {"endpoint": "https://s3 example.org"},
        {"bucket": ""},
        {"bucket": "Not_A_Bucket"},
        {"bucket": "a/b"},
        {"prefix": "without-slash"},
        {"prefix": "x" * 256 + "/"},
        {"access_key": ""},
        {"secret": ""},
        {"concurrency": 0},
        {"bytes_per_second": -1},
        {"storage_classes": ("STANDARD",)},
        {"storage_classes": ("with blank",)},
        {"storage_classes": ("x" * 65,)},
    ],
)
def test_what_cannot_be_a_location_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        check_location(replace(COLD, **change))


def test_a_storage_class_is_served_by_one_location_alone() -> None:
    other = replace(COLD, name="other", bucket="other", storage_classes=("cold",))
    with pytest.raises(InvalidInput, match="served by location cold already"):
        check_location(other, [COLD])


@pytest.mark.parametrize("prefix", ["", "tidegate/", "tidegate/deeper/"])
def test_data_of_one_location_may_not_lie_among_that_of_another(prefix: str) -> None:
    other = replace(COLD, name="other", endpoint="https://S3.example.org:443/", prefix=prefix, storage_classes=("o",))
    with pytest.raises(InvalidInput, match="overlaps"):
        check_location(other, [COLD])


@pytest.mark.parametrize(
    "change", [{"prefix": "tidegate2/"}, {"bucket": "other"}, {"endpoint": "https://elsewhere.example.org"}]
)
def test_locations_apart_from_each_other_stand_side_by_side(change: dict[str, Any]) -> None:
    check_location(replace(COLD, name="other", storage_classes=("other",), **change), [COLD])


def test_a_prefix_gets_the_slash_that_was_left_out() -> None:
    assert [complete_prefix(prefix) for prefix in ("", "a", "a/")] == ["", "a/", "a/"]


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        ("http://h", "h:80"),
        ("https://h/", "h:443"),
        ("https://h:9000", "h:9000"),
        ("http://127.0.0.1:1", "127.0.0.1:1"),
    ],
)
def test_the_host_has_its_port(endpoint: str, host: str) -> None:
    assert replace(COLD, endpoint=endpoint).host == host


def test_classes_find_their_location_and_are_ordered_from_warm_to_cold() -> None:
    older = replace(COLD, name="older", created_at=1.0, storage_classes=("zebra", "STANDARD_IA"))
    assert serving([COLD, older], "zebra") == older
    assert serving([COLD, older], "nothing") is None
    assert served_classes([COLD, older], ["STANDARD_IA", "GLACIER", "UNUSED"]) == (
        "STANDARD_IA",
        "GLACIER",
        "zebra",
        "cold",
    )
