"""Which events a success becomes, told from request and reply alone."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from gateway_records import Records

from tidegate.core.errors import Unavailable
from tidegate.core.events import Event, EventKind
from tidegate.core.s3errors import S3Error
from tidegate.gateway.changes.change import Change
from tidegate.gateway.changes.key_locks import KeyLocks
from tidegate.gateway.http.http1 import ResponseHead


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Records]:
    made = Records(tmp_path_factory.mktemp("event-builder"))
    made.add_pool("p")
    yield made
    made.close()


@pytest.fixture(scope="module")
def key_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyLocks]:
    opened = KeyLocks(tmp_path_factory.mktemp("order") / "order")
    yield opened
    opened.close()


class MadeChange:
    """A request and the store's reply to it; what an exchange would have at hand."""

    def __init__(self, records: Records, key_locks: KeyLocks) -> None:
        self._records = records
        self._key_locks = key_locks

    def events(
        self,
        method: str,
        target: str,
        reply: str = "",
        *,
        body: bytes = b"",
        received: int = 0,
        parsed: Any = (),
        status: int = 200,
        **headers: str,
    ) -> list[Event]:
        admission = uvloop.run(self._records.admitted(self._records.head(method, target, "p", **headers)))
        exchange: Any = SimpleNamespace(
            admission=admission,
            parsed=parsed,
            request_id="R1",
            gateway=SimpleNamespace(
                name="gateway:here:1",
                tables=self._records.tables,
                loop=SimpleNamespace(run_in_executor=lambda _, work, *given: work(*given)),
            ),
            intake=SimpleNamespace(payload_bytes=received),
            change=Change(SimpleNamespace(key_locks=self._key_locks), admission.bucket_name),  # type: ignore[arg-type]
        )
        head = ResponseHead(f"HTTP/1.1 {status} OK\r\n{reply}\r\n".encode(), to_head_request=False)
        build = admission.operation.events
        assert build is not None
        found = build(exchange, admission, head, body)
        assert isinstance(found, list)
        return found

    def event(self, *arguments: Any, **options: Any) -> Event:
        (event,) = self.events(*arguments, **options)
        return event


@pytest.fixture
def change(records: Records, key_locks: KeyLocks) -> MadeChange:
    return MadeChange(records, key_locks)


def test_a_put_has_what_the_client_sent_and_the_store_gave(change: MadeChange) -> None:
    event = change.event(
        "PUT",
        "/p-bucket/a%3Ab",
        'ETag: "abc"\r\nx-amz-version-id: v1\r\n',
        received=7,
        x_amz_tagging="a=1&b=%C3%A9",
        x_amz_storage_class="GLACIER",
    )
    assert (event.operation, event.pool, event.bucket, event.key) == (EventKind.PUT, "p", "p-bucket", "a:b")
    assert (event.etag, event.version_id, event.size, event.storage_class) == ("abc", "v1", 7, "GLACIER")
    assert event.tags == (("a", "1"), ("b", "é"))
    assert event.source == "gateway:here:1/R1"
    assert event.owner and event.bucket_uid


def test_without_a_word_about_it_the_storage_class_is_the_standard_one(change: MadeChange) -> None:
    assert change.event("PUT", "/p-bucket/k").storage_class == "STANDARD"


@pytest.mark.parametrize(("component", "expected"), [("replica", True), ("placement", False), ("", False)])
def test_a_put_of_a_replica_says_so(change: MadeChange, component: str, expected: bool) -> None:
    headers = {"x_amz_meta_tidegate_component": component} if component else {}
    assert change.event("PUT", "/p-bucket/k", **headers).is_replica is expected


def test_deletes_and_markers_are_told_apart(change: MadeChange) -> None:
    marker = change.event("DELETE", "/p-bucket/k", "x-amz-delete-marker: true\r\nx-amz-version-id: m\r\n", status=204)
    assert (marker.operation, marker.version_id) == (EventKind.DELETE_MARKER, "m")
    plain = change.event("DELETE", "/p-bucket/k", status=204)
    assert (plain.operation, plain.version_id) == (EventKind.DELETE, "")
    of_marker = change.event(
        "DELETE", "/p-bucket/k?versionId=m%2B1", "x-amz-delete-marker: true\r\nx-amz-version-id: m+1\r\n", status=204
    )
    assert (of_marker.operation, of_marker.version_id) == (EventKind.DELETE, "m+1")


def test_uploads_begin_and_are_given_up(change: MadeChange) -> None:
    body = b"<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>"
    started = change.event("POST", "/p-bucket/k?uploads=", body=body, x_amz_tagging="t=1")
    assert (started.operation, started.upload_id, started.tags) == (EventKind.UPLOAD_STARTED, "u1", (("t", "1"),))
    given_up = change.event("DELETE", "/p-bucket/k?uploadId=u1", status=204)
    assert (given_up.operation, given_up.upload_id) == (EventKind.UPLOAD_ABORTED, "u1")


def test_tagging_carries_the_tags_and_the_version_that_was_named(change: MadeChange) -> None:
    event = change.event("PUT", "/p-bucket/k?tagging=&versionId=v", parsed=(("a", "b"),))
    assert (event.operation, event.tags, event.version_id) == (EventKind.TAGGING, (("a", "b"),), "v")
    assert change.event("DELETE", "/p-bucket/k?tagging=", status=204).tags == ()


def test_changes_of_a_bucket_say_what_changed(change: MadeChange) -> None:
    event = change.event("PUT", "/p-bucket?object-lock=")
    assert (event.operation, event.key, event.attributes) == (
        EventKind.BUCKET_ATTRIBUTES,
        "",
        (("PutObjectLockConfiguration", "changed"),),
    )
    untagged = change.event("DELETE", "/p-bucket?tagging=", status=204)
    assert untagged.attributes == (("DeleteBucketTagging", "changed"),)


def test_times_of_one_key_strictly_rise(change: MadeChange) -> None:
    times = [change.event("PUT", "/p-bucket/rising").ts_ns for _ in range(20)]
    assert times == sorted(set(times))


def test_a_success_that_holds_an_error_is_that_error(change: MadeChange) -> None:
    parts = "/p-bucket/k?uploadId=u"
    for code, told in (("InvalidPart", "InvalidPart"), ("SomethingOfTheirOwn", "ServiceUnavailable")):
        with pytest.raises(S3Error) as error:
            change.events("POST", parts, body=f"<Error><Code>{code}</Code></Error>".encode())
        assert error.value.code == told


def test_a_success_that_cannot_be_read_is_no_success(change: MadeChange) -> None:
    with pytest.raises(Unavailable):
        change.events("POST", "/p-bucket/k?uploads=", body=b"not xml")


@pytest.mark.parametrize("tags", ["a=1&a=2", "=v", "&".join(f"t{number}=v" for number in range(11)), "k=" + "v" * 300])
def test_tags_that_cannot_be_taken_down_are_refused_beforehand(records: Records, tags: str) -> None:
    with pytest.raises(S3Error) as error:
        uvloop.run(records.admitted(records.head("PUT", "/p-bucket/k", "p", x_amz_tagging=tags)))
    assert error.value.status == 400
