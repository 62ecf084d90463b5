"""A delete that says what it means removes nothing else, whatever races with it."""

from __future__ import annotations

import re
import threading
import time
from datetime import timedelta
from email.utils import formatdate
from hashlib import md5

import pytest
from places import Place
from raw_http import Answer

from tidegate.core.xml_writer import escape

LAST_MODIFIED, SIZE = "x-amz-if-match-last-modified-time", "x-amz-if-match-size"
UNMODIFIED_SINCE = "If-Unmodified-Since"
LONG_AGO, FAR_OFF = "Sat, 01 Jan 2000 00:00:00 GMT", "2050-01-01T00:00:00.5Z"


@pytest.fixture(scope="module")
def versioned(place: Place) -> str:
    place.s3.create_bucket(Bucket="conditional-versioned")
    place.s3.put_bucket_versioning(Bucket="conditional-versioned", VersioningConfiguration={"Status": "Enabled"})
    return "conditional-versioned"


def put(place: Place, key: str, body: bytes, bucket: str = "") -> dict[str, str]:
    """Stores an object and tells its identity as a client sees it."""
    place.s3.put_object(Bucket=bucket or place.bucket, Key=key, Body=body)
    head = place.s3.head_object(Bucket=bucket or place.bucket, Key=key)
    return {
        "ETag": head["ETag"],
        LAST_MODIFIED: formatdate(head["LastModified"].timestamp(), usegmt=True),
        SIZE: str(head["ContentLength"]),
    }


def delete(place: Place, key: str, headers: dict[str, str], bucket: str = "") -> Answer:
    return place.ask("DELETE", f"/{bucket or place.bucket}/{key}", headers=headers)


def test_the_object_that_was_meant_is_deleted(place: Place) -> None:
    for names in (("ETag",), (LAST_MODIFIED,), (SIZE,), ("ETag", LAST_MODIFIED, SIZE)):
        key = place.fresh()
        seen = put(place, key, b"meant")
        headers = {("If-Match" if name == "ETag" else name): seen[name] for name in names}
        assert delete(place, key, headers).status == 204, names
        assert place.stored(key) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"If-Match": '"00000000000000000000000000000000"'},
        {SIZE: "4"},
        {LAST_MODIFIED: "Sat, 01 Jan 2000 00:00:00 GMT"},
        {LAST_MODIFIED: "2000-01-01T00:00:00Z"},
        {UNMODIFIED_SINCE: LONG_AGO},
    ],
    ids=["etag", "size", "time", "iso time", "modified since"],
)
def test_another_object_survives(place: Place, wrong: dict[str, str]) -> None:
    key = place.fresh()
    put(place, key, b"other")
    answer = delete(place, key, wrong)
    assert (answer.status, answer.code) == (412, "PreconditionFailed")
    assert place.stored(key) == b"other"


def test_one_wrong_condition_among_right_ones_is_enough_to_refuse(place: Place) -> None:
    key = place.fresh()
    seen = put(place, key, b"right")
    right = {"If-Match": seen["ETag"], LAST_MODIFIED: seen[LAST_MODIFIED], SIZE: seen[SIZE]}
    for name, value in (("If-Match", '"0"'), (LAST_MODIFIED, "Sat, 01 Jan 2000 00:00:00 GMT"), (SIZE, "6")):
        assert delete(place, key, right | {name: value}).status == 412, name
    assert place.stored(key) == b"right"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SIZE, "-1"),
        (SIZE, "five"),
        (SIZE, "9" * 5000),
        (LAST_MODIFIED, "yesterday"),
        (LAST_MODIFIED, "Mon, 99 Foo 99999 99:99:99 GMT"),
        (LAST_MODIFIED, "0000-01-01T00:00:00Z"),
        (UNMODIFIED_SINCE, "yesterday"),
    ],
)
def test_a_condition_that_is_none_is_refused(place: Place, name: str, value: str) -> None:
    key = place.fresh()
    put(place, key, b"kept")
    answer = delete(place, key, {name: value})
    assert (answer.status, answer.code) == (400, "InvalidArgument")
    assert place.stored(key) == b"kept"


def test_what_is_not_there_fails_the_condition(place: Place) -> None:
    assert delete(place, place.fresh(), {SIZE: "1"}).status == 412


def test_an_object_that_was_not_modified_since_is_deleted(place: Place) -> None:
    for since in (FAR_OFF, "Sat, 01 Jan 2050 00:00:00 GMT"):
        key = place.fresh()
        put(place, key, b"old")
        assert delete(place, key, {UNMODIFIED_SINCE: since}).status == 204
        assert place.stored(key) is None


def entry(key: str, **conditions: str) -> str:
    fields = "".join(f"<{name}>{value}</{name}>" for name, value in conditions.items())
    return f"<Object><Key>{key}</Key>{fields}</Object>"


def test_in_a_multiple_delete_each_entry_stands_for_itself(place: Place) -> None:
    keys = [place.fresh("many") for _ in range(10)]
    seen = {key: put(place, key, b"12345") for key in keys}
    stale = "2000-01-01T00:00:00.000Z"
    entries = [
        entry(keys[0]),
        entry(keys[1], ETag=seen[keys[1]]["ETag"].replace('"', "&quot;")),
        entry(keys[2], ETag="&quot;0&quot;"),
        entry(keys[3], Size="5"),
        entry(keys[4], Size="6"),
        entry(keys[5], LastModifiedTime=seen[keys[5]][LAST_MODIFIED]),
        entry(keys[6], LastModifiedTime=stale),
        entry(keys[7], Size="5", LastModifiedTime=stale),
        entry(keys[8], UnmodifiedSince=FAR_OFF),
        entry(keys[9], Size="5", UnmodifiedSince=stale),
    ]
    body = f"<Delete>{''.join(entries)}</Delete>".encode()
    answer = place.ask("POST", place.path() + "?delete=", body)
    assert answer.status == 200
    deleted = set(re.findall(rb"<Deleted>.*?<Key>(.*?)</Key>", answer.body))
    refused = set(re.findall(rb"<Error>.*?<Key>(.*?)</Key>", answer.body))
    assert deleted == {keys[number].encode() for number in (0, 1, 3, 5, 8)}
    assert refused == {keys[number].encode() for number in (2, 4, 6, 7, 9)}
    assert {number for number, key in enumerate(keys) if place.stored(key) is None} == {0, 1, 3, 5, 8}


ODD_NAMES = ("plain", "dir/b", "dir-b", "dir.b", "sp ace+plus%", "grüße-🌊", "new\nline", "a:b", "amp&<>", "z" * 200)


@pytest.mark.parametrize("versioning", ["", "Enabled", "Suspended"])
def test_of_many_neighbours_exactly_those_that_are_meant_are_deleted(place: Place, versioning: str) -> None:
    """So many that the gateway lists them: among others that are not named, and under names that stores order oddly."""
    bucket = f"neighbours{versioning.lower()}"
    place.s3.create_bucket(Bucket=bucket)
    if versioning:
        place.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": versioning})
    keys = [f"{name}{number}" for number in range(7) for name in ODD_NAMES]
    for key in keys:
        place.s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    etags = {key: f'"{md5(key.encode()).hexdigest()}"' for key in keys}
    meant = {"Size": None, "UnmodifiedSince": FAR_OFF}
    conditions = {
        key: [{}, meant, {"UnmodifiedSince": LONG_AGO}, {"Size": "1", "ETag": etags[key]}, meant][number % 5]
        for number, key in enumerate(keys)
    }
    named = {key: wanted for key, wanted in conditions.items() if wanted}
    entries = [
        entry(
            escape(key),
            **{name: escape(value or str(len(key.encode()))) for name, value in wanted.items()},
            **({"ETag": escape(etags[key])} if wanted is meant else {}),
        )
        for key, wanted in named.items()
    ]
    answer = place.ask("POST", f"/{bucket}?delete=", f"<Delete>{''.join(entries)}</Delete>".encode())
    assert answer.status == 200, answer.body
    left = {found["Key"] for found in place.s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert left == {key for key in keys if named.get(key) is not meant}
    assert answer.body.count(b"<Deleted>") == len(keys) - len(left)


def test_an_object_rewritten_with_the_same_bytes_survives(place: Place) -> None:
    keys = [place.fresh("same") for _ in range(12)]
    for key in keys:
        place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"same")
    written = place.s3.head_object(Bucket=place.bucket, Key=keys[-1])["LastModified"]
    while time.time() < written.timestamp() + 2:
        time.sleep(0.05)
    rewritten = keys[::3]
    for key in rewritten:
        place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"same")
    since = (written + timedelta(seconds=1)).isoformat()
    entries = [entry(key, Size="4", ETag=md5(b"same").hexdigest(), UnmodifiedSince=since) for key in keys]
    place.ask("POST", place.path() + "?delete=", f"<Delete>{''.join(entries)}</Delete>".encode())
    assert [key for key in keys if place.stored(key) is not None] == rewritten


def test_a_quiet_multiple_delete_tells_only_of_what_was_refused(place: Place) -> None:
    keys = [place.fresh("quiet") for _ in range(2)]
    for key in keys:
        put(place, key, b"12345")
    body = f"<Delete><Quiet>true</Quiet>{entry(keys[0])}{entry(keys[1], Size='6')}</Delete>".encode()
    answer = place.ask("POST", place.path() + "?delete=", body)
    assert b"<Deleted>" not in answer.body and keys[1].encode() in answer.body
    assert place.stored(keys[0]) is None and place.stored(keys[1]) == b"12345"


def test_on_a_versioned_bucket_a_wrong_condition_adds_no_marker(place: Place, versioned: str) -> None:
    put(place, "kept", b"first", versioned)
    put(place, "kept", b"second", versioned)
    for headers in ({"If-Match": '"0"'}, {SIZE: "5"}, {LAST_MODIFIED: "Sat, 01 Jan 2000 00:00:00 GMT"}):
        assert delete(place, "kept", headers, versioned).status == 412, headers
    listing = place.s3.list_object_versions(Bucket=versioned, Prefix="kept")
    assert "DeleteMarkers" not in listing and len(listing["Versions"]) == 2


def test_a_version_is_deleted_by_its_own_identity(place: Place, versioned: str) -> None:
    first = place.s3.put_object(Bucket=versioned, Key="by-version", Body=b"1")["VersionId"]
    place.s3.put_object(Bucket=versioned, Key="by-version", Body=b"22")
    path = f"/{versioned}/by-version?versionId={first}"
    assert place.ask("DELETE", path, headers={SIZE: "2"}).status == 412
    assert place.ask("DELETE", path, headers={SIZE: "1"}).status == 204
    versions = place.s3.list_object_versions(Bucket=versioned, Prefix="by-version")["Versions"]
    assert [version["Size"] for version in versions] == [2]


@pytest.mark.parametrize("way", ["single", "multiple"])
def test_an_object_rewritten_in_a_race_survives(place: Place, way: str) -> None:
    """Writers put ever longer objects; deletes name the size they saw. A written object that nobody named stays."""
    key, rounds = place.fresh("race"), 40
    outcomes: list[int] = []

    def delete_in_a_loop() -> None:
        for _ in range(rounds):
            if way == "single":
                outcomes.append(delete(place, key, {SIZE: "1"}).status)
            else:
                body = f"<Delete>{entry(key, Size='1')}</Delete>".encode()
                outcomes.append(place.ask("POST", place.path() + "?delete=", body).status)

    deleter = threading.Thread(target=delete_in_a_loop)
    deleter.start()
    for number in range(rounds):
        place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x" * (1 if number % 2 == 0 else 2))
        if number % 2:
            assert place.stored(key) == b"xx"
            time.sleep(0.005)
    deleter.join()
    assert place.stored(key) == b"xx"
    assert set(outcomes) <= {200, 204, 412}


@pytest.mark.parametrize("state", ["Enabled", "Suspended"])
def test_a_noncurrent_version_that_became_current_again_survives(place: Place, state: str) -> None:
    """What came after it was removed since its deletion was decided."""
    bucket = f"promoted-{state.lower()}"
    place.s3.create_bucket(Bucket=bucket)
    versioning = {"Bucket": bucket, "VersioningConfiguration": {"Status": state}}
    place.s3.put_bucket_versioning(**versioning)
    keys = ["one", "many/a", "many/b", "covered"]
    first = {key: place.s3.put_object(Bucket=bucket, Key=key, Body=b"1").get("VersionId", "null") for key in keys}
    place.s3.put_bucket_versioning(**versioning | {"VersioningConfiguration": {"Status": "Enabled"}})
    second = {key: place.s3.put_object(Bucket=bucket, Key=key, Body=b"2")["VersionId"] for key in keys[:3]}
    place.s3.delete_object(Bucket=bucket, Key="covered")

    def delete_first(key: str) -> int:
        target = f"/{bucket}/{key}?versionId={first[key]}"
        return place.ask("DELETE", target, headers={"x-amz-if-noncurrent": "true"}).status

    for key in ("one", "many/a"):
        place.s3.delete_object(Bucket=bucket, Key=key, VersionId=second[key])
    assert delete_first("one") == 412
    entries = [entry(key, VersionId=first[key], Noncurrent="true") for key in keys]
    answer = place.ask("POST", f"/{bucket}?delete=", f"<Delete>{''.join(entries)}</Delete>".encode())
    assert answer.body.count(b"PreconditionFailed") == 2
    assert answer.body.count(b"<Deleted>") == 2
    left = place.s3.list_object_versions(Bucket=bucket)["Versions"]
    assert {(found["Key"], found["VersionId"]) for found in left} == {
        ("one", first["one"]),
        ("many/a", first["many/a"]),
        ("many/b", second["many/b"]),
    }
    place.s3.put_object(Bucket=bucket, Key="one", Body=b"3")
    assert delete_first("one") == 204


def test_a_noncurrent_marker_that_became_the_newest_again_survives(place: Place) -> None:
    """Were it removed, the object under it would come back."""
    bucket = "promoted-markers"
    place.s3.create_bucket(Bucket=bucket)
    place.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    keys = ["one", "many/a", "many/b", "twice"]
    markers: dict[str, str] = {}
    tops: dict[str, str] = {}
    for key in keys:
        place.s3.put_object(Bucket=bucket, Key=key, Body=b"1")
        markers[key] = place.s3.delete_object(Bucket=bucket, Key=key)["VersionId"]
        if key == "twice":
            tops[key] = place.s3.delete_object(Bucket=bucket, Key=key)["VersionId"]
        else:
            tops[key] = place.s3.put_object(Bucket=bucket, Key=key, Body=b"2")["VersionId"]
    for key in ("one", "many/a"):
        place.s3.delete_object(Bucket=bucket, Key=key, VersionId=tops[key])
    target = f"/{bucket}/one?versionId={markers['one']}"
    assert place.ask("DELETE", target, headers={"x-amz-if-noncurrent": "true"}).status == 412
    entries = [entry(key, VersionId=markers[key], Noncurrent="true") for key in keys]
    answer = place.ask("POST", f"/{bucket}?delete=", f"<Delete>{''.join(entries)}</Delete>".encode())
    refused = re.findall(r"<Error><Key>(.*?)</Key>.*?<Code>PreconditionFailed", answer.body.decode())
    assert sorted(refused) == ["many/a", "one"]
    left = place.s3.list_object_versions(Bucket=bucket)["DeleteMarkers"]
    assert {(found["Key"], found["VersionId"]) for found in left} == {
        ("one", markers["one"]),
        ("many/a", markers["many/a"]),
        ("twice", tops["twice"]),
    }
    assert place.ask("GET", f"/{bucket}/one").status == 404
    place.s3.delete_object(Bucket=bucket, Key="one")
    assert place.ask("DELETE", target, headers={"x-amz-if-noncurrent": "true"}).status == 204


def test_only_versions_can_be_noncurrent(place: Place) -> None:
    key = place.fresh()
    put(place, key, b"kept")
    assert delete(place, key, {"x-amz-if-noncurrent": "true"}).code == "InvalidArgument"
    body = f"<Delete>{entry(key, Noncurrent='true')}</Delete>".encode()
    assert place.ask("POST", place.path() + "?delete=", body).code == "MalformedXML"
    assert place.stored(key) == b"kept"
