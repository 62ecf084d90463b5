"""`S3Store` at endpoints that misbehave, and what it sends to a gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from scripted_server import ScriptedServer, answer, error_body

from tidegate.adapters.s3_store import S3Store
from tidegate.core.errors import Conflict, NotFound, Refused, TidegateError, Unavailable
from tidegate.core.xml import DeleteEntry
from tidegate.ports import StoredPart

ETAG = 'ETag: "e"'


def store_at(server: ScriptedServer) -> S3Store:
    return S3Store(server.url, "KEY", "secret", timeout=10)


def test_an_object_that_breaks_off_is_not_taken_for_whole() -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(300_000)
    with ScriptedServer([broken], [broken]) as server:
        store, received = store_at(server), 0
        with pytest.raises(Unavailable, match="700000 bytes to come"), store.open("b", "k") as stream:
            for chunk in stream.chunks:
                received += len(chunk)
        assert received == 300_000
        with pytest.raises(Unavailable, match="IncompleteRead"):
            store.list_versions("b")


def test_an_object_in_chunks_that_breaks_off_is_not_taken_for_whole() -> None:
    broken = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n5\r\n123"
    with ScriptedServer([broken]) as server, pytest.raises(Unavailable), store_at(server).open("b", "k") as stream:
        list(stream.chunks)


def test_a_range_that_the_store_ignores_is_not_taken_for_the_rest() -> None:
    with (
        ScriptedServer([answer(200, b"all of it")]) as server,
        pytest.raises(Unavailable, match="byte 4"),
        store_at(server).open("b", "k", start=4),
    ):
        pass


@pytest.mark.parametrize(
    ("code", "error"),
    [("InternalError", Unavailable), ("SlowDown", Unavailable), ("NoSuchUpload", NotFound), ("InvalidPart", Refused)],
)
def test_an_error_within_a_successful_reply_is_an_error(code: str, error: type[TidegateError]) -> None:
    with ScriptedServer([answer(200, b"  \n" + error_body(code))]) as server, pytest.raises(error, match=code):
        store_at(server).complete_upload("b", "k", "u", [StoredPart(1, "e", 1)])


def test_a_refusal_that_comes_before_the_body_was_sent_is_told() -> None:
    refusal = answer(403, error_body("AccessDenied"), "Connection: close")
    with ScriptedServer([refusal], reads=False) as server, pytest.raises(Refused, match="AccessDenied"):
        store_at(server).put("b", "k", bytes(64 * 1024 * 1024))


def test_a_kept_connection_that_closes_under_a_request_is_replaced_where_repeating_is_harmless() -> None:
    # The second request of a connection is read, and not answered.
    scripts = [[answer(200, b"", ETAG), b""], [answer(200, b"", ETAG), b""], []]
    with ScriptedServer(*scripts) as server:
        store = store_at(server)
        assert store.put("b", "k", b"first") == store.put("b", "k", b"second") == "e"
        with pytest.raises(Unavailable):
            store.delete("b", DeleteEntry("k"))
        assert [body for _, body in server.requests] == [b"first", b"second", b"second", b""]


def test_connections_are_kept_and_used_again() -> None:
    with ScriptedServer([answer(200, b"12345", ETAG)] * 3) as server:
        store = store_at(server)
        for _ in range(2):
            with store.open("b", "k") as stream:
                assert b"".join(stream.chunks) == b"12345"
        assert store.put("b", "k", b"data") == "e"


def test_a_placement_is_asked_for_with_the_version_and_the_outcome_is_given() -> None:
    told: dict[str, Any] = {"outcome": "placed", "reason": ""}
    with ScriptedServer([answer(200, json.dumps(told).encode())]) as server:
        assert store_at(server).place("b", "k é", "v1", {"location": "cold", "size": 5}) == told
    ((head, body),) = server.requests
    assert head.startswith("PUT /b/k%20%C3%A9?tidegate-placement=&versionId=v1 HTTP/1.1")
    assert json.loads(body) == {"location": "cold", "size": 5}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<Error/>"])
def test_a_placement_without_an_outcome_is_unknown(body: bytes) -> None:
    with ScriptedServer([answer(200, body)]) as server, pytest.raises(Unavailable):
        store_at(server).place("b", "k", "", {})


def test_data_is_moved_back_as_a_stream_of_announced_length() -> None:
    with ScriptedServer([answer(200)]) as server:
        store_at(server).move_back("b", "k", "", "cold/data", 6, iter([b"abc", b"def"]))
    ((head, body),) = server.requests
    assert body == b"abcdef" and head.startswith("PUT /b/k?tidegate-data= HTTP/1.1")
    assert "x-amz-tidegate-data-key: cold/data" in head and "UNSIGNED-PAYLOAD" in head
    assert "transfer-encoding" not in head.lower()


@pytest.mark.parametrize("chunks", [[b"abc"], [b"abcdef", b"g"]])
def test_data_of_another_length_than_announced_is_not_moved_back(chunks: list[bytes]) -> None:
    with ScriptedServer([answer(200)]) as server, pytest.raises(Unavailable, match="bytes"):
        store_at(server).move_back("b", "k", "", "cold/data", 6, chunks)


def test_a_source_that_fails_ends_the_move_with_its_own_error() -> None:
    def failing() -> Iterator[bytes]:
        yield b"abc"
        raise NotFound("the source is gone")

    with ScriptedServer([answer(200)]) as server, pytest.raises(NotFound, match="source is gone"):
        store_at(server).move_back("b", "k", "", "cold/data", 6, failing())


@pytest.mark.parametrize(("status", "error"), [(412, Conflict), (404, NotFound), (503, Unavailable), (403, Refused)])
def test_data_that_cannot_be_moved_back_is_told(status: int, error: type[TidegateError]) -> None:
    with ScriptedServer([answer(status, error_body("Code"))]) as server, pytest.raises(error):
        store_at(server).move_back("b", "k", "v", "cold/data", 1, [b"x"])


def test_an_original_is_deleted_unless_it_is_in_use() -> None:
    with ScriptedServer([answer(204), answer(409, error_body("InUse"))]) as server:
        store = store_at(server)
        assert store.delete_original("b", "k", "v1")
        assert not store.delete_original("b", "k", "v1")
    assert server.requests[0][0].startswith("DELETE /b/k?tidegate-original=&versionId=v1 HTTP/1.1")


def parts_page(numbers: range, *, following: int | None) -> bytes:
    parts = "".join(f'<Part><PartNumber>{n}</PartNumber><ETag>"e{n}"</ETag><Size>{n}</Size></Part>' for n in numbers)
    end = (
        f"<IsTruncated>true</IsTruncated><NextPartNumberMarker>{following}</NextPartNumberMarker>" if following else ""
    )
    return answer(200, f"<ListPartsResult>{parts}{end}</ListPartsResult>".encode())


def test_parts_are_listed_over_all_pages() -> None:
    pages = [parts_page(range(1, 4), following=3), parts_page(range(4, 6), following=None)]
    with ScriptedServer(pages) as server:
        found = store_at(server).parts("b", "k", "u")
    assert found == [StoredPart(number, f"e{number}", number) for number in range(1, 6)]
    assert "part-number-marker=3" in server.requests[1][0]


def objects_page(*keys: str, is_truncated: bool) -> bytes:
    entries = "".join(
        f'<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>"e"</ETag><Size>1</Size></Contents>'
        for key in keys
    )
    end = f"<IsTruncated>{str(is_truncated).lower()}</IsTruncated>"
    return answer(200, f"<ListBucketResult>{entries}{end}</ListBucketResult>".encode())


def test_short_pages_of_a_listing_are_filled_up() -> None:
    pages = [objects_page("a", "b", is_truncated=True), objects_page("c", is_truncated=True)]
    with ScriptedServer([*pages, objects_page("d", is_truncated=False)]) as server:
        store = store_at(server)
        assert [entry.key for entry in store.list_objects("b", limit=3)] == ["a", "b", "c"]
        assert [entry.key for entry in store.list_objects("b", start_after="c", limit=3)] == ["d"]
    assert ["start-after=b" in head for head, _ in server.requests] == [False, True, False]


@pytest.mark.parametrize(
    "pages", [[objects_page(is_truncated=True)], [objects_page("a", is_truncated=True)] * 2], ids=["empty", "repeated"]
)
def test_a_listing_that_does_not_go_on_is_no_endless_loop(pages: list[bytes]) -> None:
    with ScriptedServer(pages) as server, pytest.raises(Unavailable, match="goes on"):
        store_at(server).list_objects("b")
    stuck = parts_page(range(1, 2), following=1)
    with ScriptedServer([stuck] * 2) as server, pytest.raises(Unavailable, match="goes on"):
        store_at(server).parts("b", "k", "u")


@pytest.mark.parametrize(
    "answered",
    [
        answer(200, b"<ListPartsResult><Part><PartNumber>x</PartNumber></Part></ListPartsResult>"),
        answer(200, b"<Other/>"),
        answer(200, b"nonsense"),
    ],
)
def test_a_listing_of_parts_that_is_none_is_unavailable(answered: bytes) -> None:
    with ScriptedServer([answered]) as server, pytest.raises(Unavailable):
        store_at(server).parts("b", "k", "u")
