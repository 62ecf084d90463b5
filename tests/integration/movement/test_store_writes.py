"""`S3Store` writing and reading data: at a bare store, as locations have it, and at the gateway in front of a pool."""

from __future__ import annotations

import base64
import hashlib
import random
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from authorities import Authority
from running_service import RunningService
from second_store import SecondStore

from tidegate.adapters.s3_endpoint import CHUNK_BYTES, verified_tls
from tidegate.adapters.s3_requests import Request
from tidegate.adapters.s3_store import S3Store
from tidegate.core.errors import Conflict, InvalidInput, NotFound, Refused, Unavailable
from tidegate.core.xml import DeleteEntry
from tidegate.ports import StoredPart

MIB = 1024 * 1024
LONGEST = "/".join(["x" * 127] * 8)  # 1023 bytes
HARD_KEYS = (
    "with:colon",
    "line\nbreak",
    "slash/in/it",
    "😀/ключ",
    "a b+c&d<e>\"'",
    "%41?x=y#z",
    LONGEST + "y",
)


@dataclass(frozen=True)
class Target:
    """A store, and a bucket in it that is the test's own."""

    store: S3Store
    bucket: str


@pytest.fixture(scope="module")
def pool_store(service: RunningService) -> Iterator[S3Store]:
    key = service.create_pool("store-writes")
    made = S3Store(service.s3_url, key.access_key, key.secret_key)
    made._endpoint.ask(Request("PUT", "store-writes"))
    yield made
    made.close()


@pytest.fixture(params=["bare store", "gateway"])
def target(request: pytest.FixtureRequest, fresh_name: Callable[[str], str]) -> Iterator[Target]:
    bucket = fresh_name("writes")
    if request.param == "gateway":
        store = request.getfixturevalue("pool_store")
        store._endpoint.ask(Request("PUT", bucket))
        yield Target(store, bucket)
        return
    second: SecondStore = request.getfixturevalue("second_store")
    store = S3Store(second.url, second.access_key, second.secret_key)
    store._endpoint.ask(Request("PUT", bucket))
    yield Target(store, bucket)
    store.close()


def content_of(store: S3Store, bucket: str, key: str, **options: object) -> bytes:
    with store.open(bucket, key, **options) as stream:  # type: ignore[arg-type]
        return b"".join(stream.chunks)


def test_objects_are_written_and_read_back_whatever_their_keys(target: Target) -> None:
    store, bucket = target.store, target.bucket
    for number, key in enumerate(HARD_KEYS):
        data = f"data {number}".encode()
        assert store.put(bucket, key, data) == hashlib.md5(data).hexdigest()
        assert content_of(store, bucket, key) == data
        head = store.head(bucket, key)
        assert head is not None and (head.size, head.etag) == (len(data), hashlib.md5(data).hexdigest())
    listed = {entry.key: entry for entry in store.list_objects(bucket)}
    assert set(listed) == set(HARD_KEYS)
    assert listed["with:colon"].size == 6 and listed["with:colon"].last_modified > 1_600_000_000
    for key in HARD_KEYS:
        store.delete(bucket, DeleteEntry(key))
        assert store.head(bucket, key) is None
    assert store.list_objects(bucket) == []


def test_metadata_comes_back_as_it_was_sent(target: Target) -> None:
    given = {"x-amz-meta-plain": "a b", "x-amz-meta-far": "ключ é 😀", "content-type": "text/x; a=b"}
    target.store.put(target.bucket, "k", b"", headers=given)
    head = target.store.head(target.bucket, "k")
    assert head is not None and given.items() <= head.headers.items()
    with target.store.open(target.bucket, "k") as stream:
        assert given.items() <= stream.head.headers.items()
        assert list(stream.chunks) == []


def test_the_store_refuses_data_that_does_not_have_its_digest(target: Target) -> None:
    wrong = {"content-md5": base64.b64encode(hashlib.md5(b"other").digest()).decode()}
    request = Request("PUT", target.bucket, "k", {}, wrong, b"data", "UNSIGNED-PAYLOAD")
    with pytest.raises(Refused, match=r"BadDigest|digest"):
        target.store._endpoint.ask(request)
    assert target.store.head(target.bucket, "k") is None


def test_a_large_object_goes_in_parts_and_comes_back_in_pieces(target: Target) -> None:
    store, bucket = target.store, target.bucket
    data = random.Random(1).randbytes(12 * MIB + 12345)
    upload = store.start_upload(bucket, "large", headers={"x-amz-meta-owner": "me"})
    assert list(store.parts(bucket, "large", upload)) == []
    pieces = [data[at : at + 5 * MIB] for at in range(0, len(data), 5 * MIB)]
    sent = [store.put_part(bucket, "large", upload, number, piece) for number, piece in enumerate(pieces, 1)]
    assert [part.etag for part in sent] == [hashlib.md5(piece).hexdigest() for piece in pieces]
    assert list(store.parts(bucket, "large", upload)) == sent
    assert store.complete_upload(bucket, "large", upload, sent).endswith("-3")
    with store.open(bucket, "large") as stream:
        assert (stream.head.size, stream.head.headers["x-amz-meta-owner"]) == (len(data), "me")
        found = list(stream.chunks)
    assert max(map(len, found)) <= CHUNK_BYTES and b"".join(found) == data
    assert content_of(store, bucket, "large", start=7 * MIB) == data[7 * MIB :]


def test_uploads_that_are_not_there_or_do_not_fit_are_told(target: Target) -> None:
    store, bucket = target.store, target.bucket
    upload = store.start_upload(bucket, "k")
    part = store.put_part(bucket, "k", upload, 1, b"data")
    with pytest.raises(Refused):
        store.complete_upload(bucket, "k", upload, [StoredPart(2, part.etag, 4)])
    store.abort_upload(bucket, "k", upload)
    with pytest.raises(NotFound):
        store.complete_upload(bucket, "k", upload, [part])
    with pytest.raises(NotFound):
        store.parts(bucket, "k", upload)
    assert store.head(bucket, "k") is None


def test_an_object_is_read_only_if_it_is_the_one_that_is_meant(target: Target) -> None:
    etag = target.store.put(target.bucket, "k", b"data")
    assert content_of(target.store, target.bucket, "k", if_match=etag) == b"data"
    with pytest.raises(Conflict):
        content_of(target.store, target.bucket, "k", if_match="0" * 32)
    with pytest.raises(NotFound):
        content_of(target.store, target.bucket, "missing")
    with pytest.raises(Refused):
        content_of(target.store, target.bucket, "k", start=4)


def test_other_calls_go_on_while_an_object_is_read_and_after_it_was_left_half_read(target: Target) -> None:
    store, bucket = target.store, target.bucket
    store.put(bucket, "k", bytes(4 * MIB))
    with store.open(bucket, "k") as stream:
        next(stream.chunks)
        store.put(bucket, "other", b"data")
        assert content_of(store, bucket, "other") == b"data"
    with pytest.raises(RuntimeError, match="mine"), store.open(bucket, "k") as stream:
        next(stream.chunks)
        raise RuntimeError("mine")
    assert len(content_of(store, bucket, "k")) == 4 * MIB


def test_listings_go_on_after_any_key(target: Target) -> None:
    store, bucket = target.store, target.bucket
    keys = {f"p/{pool}/{uid}/{number:02}" for pool in ("a", "a-b", "a.b") for uid in ("u", "v") for number in range(5)}
    for key in keys | {"elsewhere"}:
        store.put(bucket, key, b"")
    for limit in (1, 4, 1000):
        found: list[str] = []
        while page := store.list_objects(bucket, prefix="p/", start_after=found[-1] if found else "", limit=limit):
            found += [entry.key for entry in page]
            if len(page) < limit:
                break
        assert sorted(found) == sorted(keys)


def test_wrong_credentials_are_refused_and_change_nothing(second_store: SecondStore) -> None:
    for access_key, secret in ((second_store.access_key, "wrong"), ("UNKNOWN", second_store.secret_key)):
        store = S3Store(second_store.url, access_key, secret)
        with pytest.raises(Refused):
            store.put(second_store.bucket, "refused", bytes(8 * MIB))
        with pytest.raises(Refused):
            store.start_upload(second_store.bucket, "refused")
        with pytest.raises(Refused):
            store.head(second_store.bucket, "refused")
        store.close()
    assert second_store.keys(prefix="refused") == set()


def test_certificates_are_checked_against_the_authority_that_is_named(
    make_store: Callable[..., SecondStore], tmp_path: Path
) -> None:
    authority, stranger = Authority(tmp_path / "authority"), Authority(tmp_path / "stranger")
    certificate, private_key = authority.certificate_for("127.0.0.1")
    second = make_store(certificate=certificate, private_key=private_key, authority=authority.file)

    def opened(tls: ssl.SSLContext) -> S3Store:
        return S3Store(second.url, second.access_key, second.secret_key, tls=tls)

    trusting = opened(verified_tls(str(authority.file)))
    trusting.put(second.bucket, "k", bytes(MIB))
    assert content_of(trusting, second.bucket, "k") == bytes(MIB)
    trusting.close()
    for tls in (verified_tls(), verified_tls(str(stranger.file))):
        with pytest.raises(Unavailable, match=r"certificate of 127.0.0.1:.* is not trusted"):
            opened(tls).put(second.bucket, "k", b"")
    other_name = opened(verified_tls(str(authority.file)))
    other_name._endpoint.host = other_name._endpoint.host.replace("127.0.0.1", "localhost")
    with pytest.raises(Unavailable, match="is not trusted"):
        other_name.put(second.bucket, "k", b"")


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_authorities_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidInput, match=str(file)):
        verified_tls(str(file))
