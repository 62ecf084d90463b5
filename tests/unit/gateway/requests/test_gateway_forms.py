"""Bodies of forms, taken apart in pieces of any size, and the file that waits until its form is admitted."""

from __future__ import annotations

import hashlib
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.checksums import md5_check
from tidegate.core.post_policy import SizeRange
from tidegate.core.s3errors import S3Error
from tidegate.gateway.http.http1 import RequestHead
from tidegate.gateway.operations.form_reply import redirect_to
from tidegate.gateway.requests.form_intake import FormIntake
from tidegate.gateway.requests.form_reader import MOST_BYTES_BEFORE_FILE, FormReader

BOUNDARY = b"----Boundary"
FILE = b'Content-Disposition: form-data; name="file"; filename="%b"\r\nContent-Type: text/plain'


def part(name: str, value: bytes) -> tuple[bytes, bytes]:
    return f'Content-Disposition: form-data; name="{name}"'.encode(), value


def body_of(*parts: tuple[bytes, bytes], end: bytes = b"--\r\n", boundary: bytes = BOUNDARY) -> bytes:
    written = b"".join(b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, headers, value) for headers, value in parts)
    return written + b"--" + boundary + end


def form(*fields: tuple[str, bytes], data: bytes = b"data", name: bytes = b"a.txt", end: bytes = b"--\r\n") -> bytes:
    return body_of(*(part(*field) for field in fields), (FILE % name, data), end=end)


def reader(boundary: bytes = BOUNDARY) -> FormReader:
    return FormReader({b"content-type": b"multipart/form-data; boundary=" + boundary})


def read(body: bytes, size: int = 1 << 20, boundary: bytes = BOUNDARY) -> tuple[FormReader, bytes]:
    found = reader(boundary)
    data = b"".join(found.feed(body[at : at + size]) for at in range(0, len(body), size))
    found.end()
    return found, data


def code_of(call, *arguments, **options) -> str:
    with pytest.raises(S3Error) as refused:
        call(*arguments, **options)
    return refused.value.code


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 20])
def test_fields_and_file_are_found_in_pieces_of_any_size(size: int) -> None:
    near = b"\r\n--" + BOUNDARY
    data = near[:-1] + near + b"x" + near + b"-\r\n\r\r\n-" + b"\0" * 99 + b"\r\n"
    found, file = read(form(("Key", b"a\r\nb"), ("x-amz-meta-\xfc", "ü".encode()), ("empty", b""), data=data), size)
    assert file == data
    assert found.fields == {"key": "a\r\nb", "x-amz-meta-ü": "ü", "empty": ""}
    assert found.filename == "a.txt"


@given(
    st.dictionaries(st.sampled_from(["key", "a", "b"]), st.binary(max_size=40)),
    st.lists(st.sampled_from([b"\r", b"\n", b"-", b"--", BOUNDARY, b"x", b"\r\n--" + BOUNDARY]), max_size=12),
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
def test_however_a_form_is_cut_it_means_the_same(
    fields: dict[str, bytes], pieces: list[bytes], cuts: list[int]
) -> None:
    body = form(*[(name, value.hex().encode()) for name, value in fields.items()], data=b"".join(pieces))
    try:
        whole, data = read(body)
    except S3Error as error:
        whole, data = None, error.code.encode()
    found, got, at = reader(), b"", 0
    try:
        for number in range(len(body)):
            size = cuts[number % len(cuts)]
            got += found.feed(body[at : at + size])
            at += size
        found.end()
    except S3Error as error:
        assert (whole, error.code.encode()) == (None, data)
    else:
        assert whole is not None
        assert (found.fields, got) == (whole.fields, data)


def test_what_follows_the_file_is_ignored() -> None:
    more = b"\r\n" + part("key", b"")[0] + b"\r\n\r\nlate\r\n--" + BOUNDARY + b"\r\nno headers at all"
    for size in (1, 5, 1 << 20):
        found, data = read(form(("key", b"k"), end=more), size)
        assert (found.fields, data) == ({"key": "k"}, b"data")


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("InvalidArgument", body_of(part("key", b"k"))),
        ("InvalidArgument", body_of(part("key", b"k"), part("KEY", b"l"), (FILE, b""))),
        ("MalformedPOSTRequest", b""),
        ("MalformedPOSTRequest", b"key=k&file=data"),
        ("MalformedPOSTRequest", form(("key", b"k"))[:-8]),
        ("MalformedPOSTRequest", form(("key", b"k"), end=b"")),
        ("MalformedPOSTRequest", body_of(part("key", b"k"))[:-8]),
        ("MalformedPOSTRequest", form(("key", b"\xff"))),
        ("MalformedPOSTRequest", body_of((b"X: y", b"k"))),
        ("MalformedPOSTRequest", body_of((b'Content-Disposition: attachment; name="key"', b"k"))),
        ("MalformedPOSTRequest", body_of((b"Content-Disposition: form-data", b"k"))),
        ("MalformedPOSTRequest", body_of((b"Content-Disposition: form-data; name=a\r\ncontent-disposition: x", b"k"))),
        ("MalformedPOSTRequest", body_of((b"no colon", b"k"))),
        ("MalformedPOSTRequest", body_of((b"\r\n".join([b"a%d: b" % n for n in range(20)]), b"k"))),
        ("MalformedPOSTRequest", body_of((b"a: " + b"b" * 5000, b"k"))),
        ("MalformedPOSTRequest", form(("key", b"k")).replace(b"--" + BOUNDARY, b"--other")),
    ],
)
def test_what_is_no_form_with_a_file_is_refused(code: str, body: bytes) -> None:
    for size in (1, 1 << 20):
        assert code_of(read, body, size) == code


@pytest.mark.parametrize("boundary", [b"", b"; boundary=", b'; boundary="a*b"', b"; boundary=" + b"x" * 71])
def test_a_boundary_is_needed(boundary: bytes) -> None:
    assert code_of(FormReader, {b"content-type": b"multipart/form-data" + boundary}) == "MalformedPOSTRequest"


def test_the_file_must_begin_in_the_first_20_kib() -> None:
    overhead = form(("key", b"")).index(b"\r\n\r\ndata") + 4
    room = MOST_BYTES_BEFORE_FILE - overhead
    for size in (1, 4096, 1 << 20):
        assert read(form(("key", b"k" * room)), size)[1] == b"data"
        assert code_of(read, form(("key", b"k" * (room + 1))), size) == "MaxPostPreDataLengthExceeded"
    assert code_of(read, b"\r\n" * 20_000) == "MaxPostPreDataLengthExceeded"
    assert read(form(("key", b"k"), data=b"x" * 100_000))[1] == b"x" * 100_000


def intake_of(body: bytes, *headers: bytes, checks=()) -> FormIntake:
    lines = [b"POST /b HTTP/1.1", b"Host: h", b"Content-Type: multipart/form-data; boundary=" + BOUNDARY, *headers]
    framing = b"Content-Length: %d" % len(body)
    return FormIntake(RequestHead(b"\r\n".join([*lines, framing]) + b"\r\n\r\n"), checks)


def test_the_file_waits_until_the_form_is_admitted() -> None:
    body = form(("key", b"k"), data=b"0123456789")
    at = body.index(b"56789")
    intake = intake_of(body)
    assert intake.take(body[:at]) == (b"", b"")
    assert intake.form.has_file and not intake.complete
    assert intake.open(SizeRange(10, 10), ()) == b"01234"
    assert intake.take(body[at:] + b"GET") == (b"56789", b"GET")
    assert (intake.complete, intake.payload_bytes, intake.payload_length) == (True, 10, None)
    assert intake.wire_bytes == len(body)
    whole = intake_of(body)
    whole.take(body)
    assert whole.complete and whole.open(SizeRange(), ()) == b"0123456789"
    assert whole.payload_length == 10


@pytest.mark.parametrize(("size", "code"), [(SizeRange(0, 9), "EntityTooLarge"), (SizeRange(11, 20), "EntityTooSmall")])
def test_a_file_of_another_size_is_refused_early_or_late(size: SizeRange, code: str) -> None:
    body = form(("key", b"k"), data=b"0123456789")
    early = intake_of(body)
    early.take(body)
    assert code_of(early.open, size, ()) == code
    late = intake_of(body)
    late.take(body[:-30])
    late.open(size, ())
    assert code_of(late.take, body[-30:]) == code


def test_checksums_in_fields_are_the_files_and_in_headers_the_forms() -> None:
    body = form(("key", b"k"), data=b"data")
    right = md5_check(b64encode(hashlib.md5(b"data", usedforsecurity=False).digest()))
    intake = intake_of(body, checks=[md5_check(b64encode(hashlib.md5(body, usedforsecurity=False).digest()))])
    intake.take(body)
    assert intake.open(SizeRange(), [right]) == b"data"
    wrong = intake_of(body, checks=[md5_check(b64encode(bytes(16)))])
    assert code_of(wrong.take, body) == "BadDigest"
    also_wrong = intake_of(body)
    also_wrong.take(body)
    assert code_of(also_wrong.open, SizeRange(), [md5_check(b64encode(bytes(16)))]) == "BadDigest"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://there/done", "http://there/done?bucket=b&key=k%2F%C3%BC&etag=%22e%22"),
        ("https://there/?a=b#c", "https://there/?a=b&bucket=b&key=k%2F%C3%BC&etag=%22e%22#c"),
        ("", ""),
        ("/relative", ""),
        ("javascript:alert(1)", ""),
        ("http://[there", ""),
        ("http:///x", ""),
        ("http://there/\r\nSet-Cookie: a=b", ""),
        ("http://thére/", ""),
    ],
)
def test_a_redirect_goes_to_an_address_of_the_web_or_nowhere(url: str, expected: str) -> None:
    assert redirect_to(url, "b", "k/ü", '"e"') == expected
