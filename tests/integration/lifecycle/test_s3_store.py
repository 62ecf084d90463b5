"""`S3Store` at the gateway in front of a real store: what it reads, changes and raises."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from lifecycle_world import World
from running_service import RunningService

from tidegate.adapters.s3_store import S3Store
from tidegate.core.errors import Conflict, InvalidInput, NotFound, Refused, Unavailable
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.xml import DeleteEntry
from tidegate.walking import stretches, versions_of

HARD_KEYS = ("a b+c&d<e>\"'", "колонка:ключ", "😀", "line\nbreak", "%41?x=y#z", "slash/in/it")


@pytest.fixture(scope="module")
def world(service: RunningService) -> World:
    return World(service, service.create_pool("s3-store"))


@pytest.fixture
def store(world: World) -> Iterator[S3Store]:
    made = S3Store(world.service.s3_url, world.key.access_key, world.key.secret_key)
    yield made
    made.close()


@pytest.fixture
def bucket(world: World, fresh_name: Callable[[str], str]) -> str:
    return world.bucket(fresh_name("store"))


@pytest.fixture
def versioned(world: World, fresh_name: Callable[[str], str]) -> str:
    return world.bucket(fresh_name("store"), versioning="Enabled")


def test_versioning_and_locking_are_told(world: World, store: S3Store, bucket: str, versioned: str) -> None:
    assert (store.versioning(bucket), store.versioning(versioned)) == (Versioning.OFF, Versioning.ENABLED)
    world.s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Suspended"})
    assert store.versioning(versioned) is Versioning.SUSPENDED
    assert not store.locks_objects(bucket)
    assert store.locks_objects(world.lockable_bucket(f"{bucket}-locks"))


def test_versions_are_listed_with_their_identity_whatever_their_keys(
    world: World, store: S3Store, versioned: str
) -> None:
    ids = world.put(versioned, *HARD_KEYS, body=b"12345")
    page = store.list_versions(versioned)
    assert {(entry.key, entry.version_id) for entry in page.versions} == set(zip(HARD_KEYS, ids, strict=True))
    for entry in page.versions:
        look = store.look(versioned, entry.key, entry.version_id)
        assert look is not None and (look.etag, look.size) == (entry.etag, entry.size) == (entry.etag, 5)
        assert entry.is_latest and not entry.is_marker and entry.modified
    assert not page.is_truncated


def test_folders_are_rolled_up_and_pages_say_that_more_follows(world: World, store: S3Store, bucket: str) -> None:
    world.put(bucket, "a/1", "a/2", "b", "c/1")
    page = store.list_versions(bucket, delimiter="/")
    assert ([entry.key for entry in page.versions], page.prefixes) == (["b"], ("a/", "c/"))
    assert store.list_versions(bucket, limit=2).is_truncated


def test_a_walk_of_the_real_store_finds_everything(world: World, store: S3Store, versioned: str) -> None:
    names = ["k", "k-a", "k.x", "k0", "z", *(f"k/{number}" for number in range(9)), *(f"k-d/{n}" for n in range(9))]
    expected = {(name, version) for name, version in zip(names, world.put(versioned, *names), strict=True)}
    expected |= {("k", version) for version in world.put(versioned, *["k"] * 7)}
    expected.add(("z", world.s3.delete_object(Bucket=versioned, Key="z")["VersionId"]))
    for limit in (3, 12):
        steps = list(stretches(store, versioned, prefix="", limit=limit))
        assert [key for step in steps for key in step.keys] == sorted(names)
        found = [entry for step in steps for versions in step.keys.values() for entry in versions]
        assert sorted((entry.key, entry.version_id) for entry in found) == sorted(expected)
    alone = versions_of(store, versioned, "k", limit=3)
    assert {("k", entry.version_id) for entry in alone} == {pair for pair in expected if pair[0] == "k"}
    assert versions_of(store, versioned, "k-") == []


def test_uploads_are_listed_in_pages_and_aborted(world: World, store: S3Store, bucket: str) -> None:
    started = {
        world.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for key in ("x", "x", "y", "z é", "z é")
    }
    found: set[str] = set()
    key_marker = upload_id_marker = ""
    while True:
        page = store.list_uploads(bucket, key_marker=key_marker, upload_id_marker=upload_id_marker, limit=2)
        found |= {upload.upload_id for upload in page.uploads}
        for upload in page.uploads:
            store.abort_upload(bucket, upload.key, upload.upload_id)
        if not page.is_truncated:
            break
        key_marker, upload_id_marker = page.next_key, page.next_upload_id
    assert found == started
    assert world.uploads(bucket) == set()


def test_an_upload_is_aborted_under_its_own_key_only(world: World, store: S3Store, bucket: str) -> None:
    upload = world.s3.create_multipart_upload(Bucket=bucket, Key="y")["UploadId"]
    with pytest.raises(NotFound):
        store.abort_upload(bucket, "x", upload)
    assert world.uploads(bucket) == {upload}


def test_tags_and_locks_are_told(world: World, store: S3Store, bucket: str) -> None:
    world.put(bucket, "tagged", Tagging="a=1&b=2")
    assert dict(store.tags(bucket, "tagged")) == {"a": "1", "b": "2"}
    with pytest.raises(NotFound):
        store.tags(bucket, "missing")
    locks = world.lockable_bucket(f"{bucket}-locked")
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    world.put(locks, "held", ObjectLockLegalHoldStatus="ON")
    world.put(locks, "kept", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    held, kept = store.look(locks, "held"), store.look(locks, "kept")
    assert held is not None and held.legal_hold and held.retained_until_ns is None
    assert kept is not None and kept.retained_until_ns == int(until.timestamp()) * 10**9


@pytest.mark.parametrize("wrong", [{"etag": '"0"'}, {"size": 4}, {"last_modified": "2001-01-01T00:00:00Z"}])
def test_a_delete_that_means_another_object_changes_nothing(
    world: World, store: S3Store, bucket: str, wrong: dict[str, object]
) -> None:
    world.put(bucket, "k", body=b"12345")
    (entry,) = store.list_versions(bucket).versions
    right = DeleteEntry("k", etag=f'"{entry.etag}"', last_modified=entry.modified, size=5)
    with pytest.raises(Conflict):
        store.delete(bucket, right._replace(**wrong))  # type: ignore[arg-type]
    result = store.delete_many(bucket, [right._replace(**wrong)])  # type: ignore[arg-type]
    assert [failure.code for failure in result.failures] == ["PreconditionFailed"]
    assert world.keys(bucket) == {"k"}
    store.delete(bucket, right)
    assert world.keys(bucket) == set()


def test_many_objects_go_in_one_request_whatever_their_keys(world: World, store: S3Store, bucket: str) -> None:
    world.put(bucket, *HARD_KEYS)
    entries = [
        DeleteEntry(entry.key, etag=f'"{entry.etag}"', last_modified=entry.modified, size=entry.size)
        for entry in store.list_versions(bucket).versions
    ]
    result = store.delete_many(bucket, entries)
    assert {done.key for done in result.deleted} == set(HARD_KEYS)
    with pytest.raises(InvalidInput):
        store.delete_many(bucket, [DeleteEntry("k")] * 1001)


def test_a_marker_is_only_removed_while_no_object_is_in_its_place(world: World, store: S3Store, bucket: str) -> None:
    world.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    world.put(bucket, "k")
    with pytest.raises(Conflict):
        store.delete(bucket, DeleteEntry("k", "null"), only_marker=True)
    assert world.keys(bucket) == {"k"}
    world.s3.delete_object(Bucket=bucket, Key="k")
    assert store.look(bucket, "k") is None
    store.delete(bucket, DeleteEntry("k", "null"), only_marker=True)


def test_what_is_not_there_and_what_is_forbidden_are_told_apart(world: World, store: S3Store, bucket: str) -> None:
    with pytest.raises(NotFound, match="NoSuchBucket"):
        store.list_versions("no-such-bucket")
    assert store.look(bucket, "missing") is None
    wrong = S3Store(world.service.s3_url, world.key.access_key, "wrong")
    with pytest.raises(Refused, match="SignatureDoesNotMatch"):
        wrong.list_versions(bucket)
    wrong.close()


def test_a_server_that_is_gone_or_talks_nonsense_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        S3Store("http://127.0.0.1:1", "k", "s").list_versions("bucket")
    with pytest.raises(InvalidInput):
        S3Store("ftp://host", "k", "s")
    for answer in (
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<a>",
        b"",
        b"HTTP/1.1 503 x\r\n\r\n",
    ):
        with _server(answer) as url, pytest.raises(Unavailable):
            S3Store(url, "k", "s").list_versions("bucket")


class _server:
    """Gives one answer to whoever connects."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(self._answer)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()


def test_a_connection_that_the_server_closed_meanwhile_is_replaced(store: S3Store, bucket: str) -> None:
    store.list_versions(bucket)
    store._endpoint._idle[-1].sock.shutdown(socket.SHUT_RDWR)
    assert store.list_versions(bucket).versions == ()
