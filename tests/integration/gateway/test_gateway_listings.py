"""Listings through the gateway are what S3 would answer, over a store that lists in the order of its directories."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError
from places import Place
from running_service import RunningService
from s3_oracle import Query, listed, pages

# Every byte around the slash, and what lies far from it.
CHARACTERS = [*"!\"#$%&'()*+,-.0123:;<=>?@AZ[]^_`az{|}~ ", "\u00e9", "\u4e2d", "\U0001f600", "\U0010ffff"]
ROUNDS = 150
Versions = dict[str, list[tuple[str, bool]]]


def generated_keys(draw: random.Random, count: int) -> set[str]:
    """Names that go on from each other, folders beside keys of the same name, some deep and some long."""
    stems = ["a", "app", "b", "log-0221"]
    keys: set[str] = set()
    while len(keys) < count:
        segments = [draw.choice(stems) + "".join(draw.choices(CHARACTERS, k=draw.randint(0, 2))) for _ in range(3)]
        key = "/".join(segments[: draw.randint(1, 3)])
        keys.add(key if draw.random() < 0.97 else "/".join([key, *["long" * 50] * 4]))
    return keys


def queries(draw: random.Random, keys: list[str]) -> Iterator[Query]:
    for _ in range(ROUNDS):
        key = draw.choice(keys)
        folder = key.rpartition("/")[0]
        prefix = draw.choice(["", "", key[: draw.randint(0, len(key))], f"{folder}/", key])
        delimiter = draw.choice(["", "", "/", "/", "/", "-", "p", "/a", "."])
        after = draw.choice(["", key, key[:-1], key + "-", folder, f"{folder}/"])
        yield Query(prefix.lstrip("/"), delimiter, after.lstrip("/"), draw.choice([1, 2, 3, 5, 10, 1000]))


def parameters(query: Query, marker: str, limit: str = "MaxKeys") -> dict[str, Any]:
    given = {"Prefix": query.prefix, "Delimiter": query.delimiter, marker: query.after, limit: query.limit}
    return {name: value for name, value in given.items() if value}


def shown(page: dict[str, Any]) -> tuple[list[str], list[str], bool]:
    keys = [entry["Key"] for entry in page.get("Contents", [])]
    return keys, [entry["Prefix"] for entry in page.get("CommonPrefixes", [])], page["IsTruncated"]


def rolled_up(page: dict[str, Any]) -> list[str]:
    keys, prefixes, _ = shown(page)
    return keys + prefixes


def contents(key: str) -> bytes:
    """The store keeps no data for a key that is a folder to it."""
    return b"" if key.endswith("/") else b"x"


def put_all(place: Place, keys: list[str]) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda key: place.s3.put_object(Bucket=place.bucket, Key=key, Body=contents(key)), keys))


@pytest.fixture(scope="module")
def plain(service: RunningService) -> tuple[Place, list[str]]:
    place = Place(service, "listings", "listings-plain")
    keys = generated_keys(random.Random(1), 150)
    parents = {key.rpartition("/")[0] for key in sorted(keys)[::5] if "/" in key}
    folders = {f"{parent}/" for parent in parents if parent not in keys}
    put_all(place, [*keys, *folders])
    return place, sorted(keys | folders)


@pytest.fixture(scope="module")
def versioned(service: RunningService) -> tuple[Place, Versions]:
    """A bucket that has had every kind of versioning. For each key its versions, the newest first, and whether they are
    delete markers."""
    place, draw = Place(service, "listed-versions", "listings-versioned"), random.Random(2)
    keys = sorted(generated_keys(random.Random(3), 100))
    versions: Versions = {key: [] for key in keys}

    def note(key: str, version: str, is_marker: bool) -> None:
        kept = [each for each in versions[key] if each[0] != version]
        versions[key] = [(version, is_marker), *kept]

    def put(key: str) -> None:
        note(key, place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x").get("VersionId", "null"), False)

    def delete(key: str) -> None:
        note(key, place.s3.delete_object(Bucket=place.bucket, Key=key)["VersionId"], True)

    def switch(status: str) -> None:
        time.sleep(1.1)  # listings tell times in seconds, and null versions have no other order
        place.s3.put_bucket_versioning(Bucket=place.bucket, VersioningConfiguration={"Status": status})

    for key in draw.sample(keys, 60):
        put(key)
    switch("Enabled")
    for key in draw.choices(keys, k=120):
        put(key)
    for key in draw.sample(keys, 30):
        delete(key)
    switch("Suspended")
    for key in draw.sample(keys, 20):
        put(key)
    switch("Enabled")
    for key in draw.sample(keys, 10):
        delete(key)
    return place, {key: found for key, found in versions.items() if found}


def test_one_page_is_as_s3_answers_it(plain: tuple[Place, list[str]]) -> None:
    place, keys = plain
    for query in queries(random.Random(4), keys):
        v2 = place.s3.list_objects_v2(Bucket=place.bucket, **parameters(query, "StartAfter"))
        v1 = place.s3.list_objects(Bucket=place.bucket, **parameters(query, "Marker"))
        assert shown(v2) == shown(v1) == listed(keys, query), query
        assert v2["KeyCount"] == len(v2.get("Contents", [])) + len(v2.get("CommonPrefixes", []))


@pytest.mark.parametrize("limit", [1, 2, 7])
@pytest.mark.parametrize("delimiter", ["", "/", "-"])
def test_pages_go_on_where_the_last_one_ended(plain: tuple[Place, list[str]], limit: int, delimiter: str) -> None:
    place, keys = plain
    prefix = "a" if limit == 1 else ""
    whole = listed(keys, Query(prefix, delimiter))
    given = {"Bucket": place.bucket, "MaxKeys": limit, "Prefix": prefix, "Delimiter": delimiter}
    for ask in (place.s3.list_objects_v2, place.s3.list_objects):
        contents = pages(ask, lambda page: shown(page)[0], **given)
        prefixes = pages(ask, lambda page: shown(page)[1], **given)
        assert (contents, prefixes) == whole[:2]


def test_current_objects_of_a_versioned_bucket_are_as_s3_lists_them(versioned: tuple[Place, Versions]) -> None:
    place, versions = versioned
    keys = sorted(key for key, found in versions.items() if not found[0][1])
    for query in queries(random.Random(5), keys):
        page = place.s3.list_objects_v2(Bucket=place.bucket, **parameters(query, "StartAfter"))
        assert shown(page) == listed(keys, query), query
    given = {"Bucket": place.bucket, "MaxKeys": 3}
    assert pages(place.s3.list_objects_v2, lambda page: shown(page)[0], **given) == keys
    given = {"Bucket": place.bucket, "MaxKeys": 3, "Delimiter": "/"}
    assert pages(place.s3.list_objects_v2, lambda page: shown(page)[1], **given) == listed(keys, Query("", "/"))[1]


def version_entries(page: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """In the order of the document, which boto3 does not keep between versions and markers."""
    found = [(entry["Key"], entry["VersionId"], False) for entry in page.get("Versions", [])]
    return [*found, *((entry["Key"], entry["VersionId"], True) for entry in page.get("DeleteMarkers", []))]


@pytest.mark.parametrize("limit", [1, 3, 10, 1000])
def test_versions_come_whole_each_once_and_newest_first(versioned: tuple[Place, Versions], limit: int) -> None:
    place, versions = versioned
    found: list[set[tuple[str, str, bool]]] = pages(
        place.s3.list_object_versions, lambda page: [set(version_entries(page))], Bucket=place.bucket, MaxKeys=limit
    )
    expected = [(key, *version) for key in sorted(versions) for version in versions[key]]
    assert found == [set(expected[start : start + limit]) for start in range(0, len(expected), limit)]


def test_versions_with_prefix_delimiter_and_marker_are_as_s3_lists_them(
    versioned: tuple[Place, Versions],
) -> None:
    place, versions = versioned
    for query in queries(random.Random(6), sorted(versions)):
        page = place.s3.list_object_versions(
            Bucket=place.bucket, **parameters(Query(query.prefix, query.delimiter, query.after), "KeyMarker")
        )
        keys, prefixes, _ = listed(versions, Query(query.prefix, query.delimiter, query.after))
        assert {entry[0] for entry in version_entries(page)} == set(keys), query
        assert [entry["Prefix"] for entry in page.get("CommonPrefixes", [])] == prefixes, query
        latest = [entry for entry in [*page.get("Versions", []), *page.get("DeleteMarkers", [])] if entry["IsLatest"]]
        assert {(entry["Key"], entry["VersionId"]) for entry in latest} == {(key, versions[key][0][0]) for key in keys}


def test_open_uploads_are_listed_as_s3_does(plain: tuple[Place, list[str]]) -> None:
    place, keys = plain
    bucket = "listings-uploads"
    place.s3.create_bucket(Bucket=bucket)
    files = [key for key in keys if not key.endswith("/")]
    chosen = [*random.Random(7).sample(files, 25), *files[:3]]
    opened = [(key, place.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]) for key in chosen]
    by_key = sorted(opened, key=lambda upload: upload[0].encode())
    for limit in (1, 4, 1000):
        found = pages(
            place.s3.list_multipart_uploads,
            lambda page: [(upload["Key"], upload["UploadId"]) for upload in page.get("Uploads", [])],
            Bucket=bucket,
            MaxUploads=limit,
        )
        assert [key for key, _ in found] == [key for key, _ in by_key]
        assert set(found) == set(opened)
    for query in queries(random.Random(8), chosen):
        page = place.s3.list_multipart_uploads(Bucket=bucket, **parameters(query, "KeyMarker", "MaxUploads"))
        uploads, prefixes = page.get("Uploads", []), [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
        wanted, rolled, _ = listed({*chosen}, Query(query.prefix, query.delimiter, query.after))
        assert len(uploads) + len(prefixes) <= query.limit
        if query.limit == 1000:
            assert (sorted({upload["Key"] for upload in uploads}), prefixes) == (wanted, rolled), query


@pytest.mark.parametrize("is_versioned", [False, True], ids=["plain", "versioned"])
def test_under_writes_nothing_that_is_there_throughout_is_missing_or_twice(
    service: RunningService, is_versioned: bool
) -> None:
    place = Place(service, f"written-{is_versioned}".lower(), f"listed-while-written-{is_versioned}".lower())
    if is_versioned:
        place.s3.put_bucket_versioning(Bucket=place.bucket, VersioningConfiguration={"Status": "Enabled"})
    lasting = sorted(generated_keys(random.Random(9), 80))
    put_all(place, lasting)
    passing = sorted(generated_keys(random.Random(10), 80) - set(lasting))
    stop = threading.Event()

    def write(part: list[str]) -> None:
        while not stop.is_set():
            for key in part:
                place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"y")
            for key in part:
                place.s3.delete_object(Bucket=place.bucket, Key=key)

    writers = [threading.Thread(target=write, args=(passing[number::3],)) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        for limit in (2, 5, 9):
            given = {"Bucket": place.bucket, "MaxKeys": limit}
            found = pages(place.s3.list_objects_v2, lambda page: shown(page)[0], **given)
            assert found == sorted(set(found), key=str.encode)
            assert set(lasting) <= set(found) <= {*lasting, *passing}
            rolled = pages(place.s3.list_objects_v2, rolled_up, **given, Delimiter="/")
            keys, prefixes, _ = listed(lasting, Query("", "/"))
            assert {*keys, *prefixes} <= set(rolled)
            assert len(rolled) == len(set(rolled))
    finally:
        stop.set()
        for writer in writers:
            writer.join()


# --- no ghosts ---------------------------------------------------------------------------------------------------


def test_a_prefix_is_gone_with_the_last_key_under_it(place: Place) -> None:
    root = place.fresh("ghosts")
    for key in ("d/x/y", "d/z", "e"):
        place.s3.put_object(Bucket=place.bucket, Key=f"{root}/{key}", Body=b"x")
    place.s3.delete_object(Bucket=place.bucket, Key=f"{root}/d/x/y")
    page = place.s3.list_objects_v2(Bucket=place.bucket, Prefix=f"{root}/d/", Delimiter="/")
    assert shown(page) == ([f"{root}/d/z"], [], False)
    place.s3.delete_object(Bucket=place.bucket, Key=f"{root}/d/z")
    for prefix in (f"{root}/", f"{root}/d"):
        for ask in (place.s3.list_objects_v2, place.s3.list_objects, place.s3.list_object_versions):
            assert "CommonPrefixes" not in ask(Bucket=place.bucket, Prefix=prefix, Delimiter="/")
    assert place.s3.list_objects_v2(Bucket=place.bucket, Prefix=f"{root}/d/")["KeyCount"] == 0


def test_a_folder_of_deleted_versions_is_listed_among_versions_alone(versioned: tuple[Place, Versions]) -> None:
    place, _ = versioned
    key = "folder-of-markers/only"
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    place.s3.delete_object(Bucket=place.bucket, Key=key)
    asked = {"Bucket": place.bucket, "Prefix": "folder-of-markers", "Delimiter": "/"}
    try:
        assert "CommonPrefixes" not in place.s3.list_objects_v2(**asked)
        assert place.s3.list_object_versions(**asked)["CommonPrefixes"] == [{"Prefix": "folder-of-markers/"}]
    finally:
        for version in version_entries(place.s3.list_object_versions(Bucket=place.bucket, Prefix=key)):
            place.s3.delete_object(Bucket=place.bucket, Key=key, VersionId=version[1])


def test_deleting_a_folder_and_what_is_in_it_at_once_leaves_neither(place: Place) -> None:
    root = place.fresh("folder")
    for key in (f"{root}/", f"{root}/y"):
        place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"")
    names = [{"Key": f"{root}/y"}, {"Key": f"{root}/"}]
    assert "Errors" not in place.s3.delete_objects(Bucket=place.bucket, Delete={"Objects": names})
    for delimiter in ("", "/"):
        page = place.s3.list_objects_v2(Bucket=place.bucket, Prefix=root, Delimiter=delimiter)
        assert shown(page) == ([], [], False)


def test_a_folder_that_was_made_stays_without_anything_in_it(place: Place) -> None:
    root = place.fresh("made")
    place.s3.put_object(Bucket=place.bucket, Key=f"{root}/", Body=b"")
    place.s3.put_object(Bucket=place.bucket, Key=f"{root}/x", Body=b"x")
    place.s3.delete_object(Bucket=place.bucket, Key=f"{root}/x")
    assert shown(place.s3.list_objects_v2(Bucket=place.bucket, Prefix=root, Delimiter="/"))[1] == [f"{root}/"]
    assert shown(place.s3.list_objects_v2(Bucket=place.bucket, Prefix=root))[0] == [f"{root}/"]


# --- what is asked -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"max-keys": "-1"},
        {"max-keys": "many"},
        {"max-keys": "99999999999"},
        {"encoding-type": "base64"},
        {"versions": "", "version-id-marker": "null"},
        {"list-type": "2", "continuation-token": "listings"},
        {"list-type": "2", "continuation-token": ""},
    ],
)
def test_what_makes_no_sense_is_refused(place: Place, given: dict[str, str]) -> None:
    query = "&".join(f"{name}={value}" for name, value in given.items())
    answer = place.ask("GET", f"/{place.bucket}?{query}")
    assert (answer.status, b"<Code>InvalidArgument</Code>" in answer.body) == (400, True)


def test_no_keys_and_more_than_a_thousand(place: Place) -> None:
    page = place.s3.list_objects_v2(Bucket=place.bucket, MaxKeys=0)
    assert (page["KeyCount"], page["IsTruncated"], page["MaxKeys"]) == (0, False, 0)
    assert place.s3.list_objects_v2(Bucket=place.bucket, MaxKeys=5000)["MaxKeys"] == 1000


@pytest.mark.parametrize("prefix", ["/", "a//b", "\\", "a/../b"])
def test_under_prefixes_that_no_key_can_have_there_is_nothing(plain: tuple[Place, list[str]], prefix: str) -> None:
    place, _ = plain
    for ask in (place.s3.list_objects_v2, place.s3.list_object_versions, place.s3.list_multipart_uploads):
        page = ask(Bucket=place.bucket, Prefix=prefix)
        assert not page["IsTruncated"]
        assert not {"Contents", "Versions", "Uploads"} & page.keys()


def test_names_are_encoded_if_that_is_asked_for_and_only_then(place: Place) -> None:
    root = place.fresh("encoded")
    key = f"{root}/a+b %&<>\u00e9"
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    encoded = place.ask("GET", f"/{place.bucket}?list-type=2&prefix={root}&encoding-type=url").body
    assert f"<Key>{root}/a%2Bb".encode() in encoded
    plain_text = place.ask("GET", f"/{place.bucket}?list-type=2&prefix={root}").body
    assert f"<Key>{root}/a+b %&amp;&lt;&gt;\u00e9</Key>".encode() in plain_text
    assert shown(place.s3.list_objects_v2(Bucket=place.bucket, Prefix=root))[0] == [key]


def test_only_the_second_listing_shows_owners_on_request(place: Place) -> None:
    key = place.fresh("owned")
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    page = place.s3.list_objects_v2(Bucket=place.bucket, Prefix=key)
    assert "Owner" not in page["Contents"][0]
    page = place.s3.list_objects_v2(Bucket=place.bucket, Prefix=key, FetchOwner=True)
    assert page["Contents"][0]["Owner"]["ID"]


def test_a_bucket_that_is_not_there_has_no_listing(place: Place) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        place.s3.list_objects_v2(Bucket="listings-of-nothing")
