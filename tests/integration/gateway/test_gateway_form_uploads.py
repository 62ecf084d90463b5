"""Uploads by POST of a form, as browsers make them and as nobody should."""

from __future__ import annotations

import hashlib
import time
from base64 import b64encode
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from forms import CONTENT_TYPE, FORM_END, Fields, form_body, form_start, post_head, signed_fields
from places import Place
from raw_http import Answer, Wire, request, until
from replayed import all_events
from running_service import PoolKey

from tidegate.core.events import EventKind

OPEN = "forms-open"


@pytest.fixture(scope="module")
def open_bucket(place: Place) -> str:
    """Anybody may upload there."""
    place.s3.create_bucket(Bucket=OPEN)
    place.service.cli("bucket", "policy", OPEN, "upload")
    return OPEN


@pytest.fixture(scope="module")
def rival(place: Place) -> PoolKey:
    key = place.service.create_pool("forms-rival")
    place.service.s3(key).create_bucket(Bucket="forms-rival-bucket")
    return key


def signed(place: Place, fields: Fields, *conditions: Any, **options: Any) -> Fields:
    return signed_fields(place.key, place.bucket, fields, *conditions, **options)


def posted(place: Place, body: bytes, *lines: str, bucket: str = "") -> Answer:
    with place.wire() as wire:
        return wire.ask(post_head(wire.authority, f"/{bucket or place.bucket}", len(body), *lines) + body)


def refused(place: Place, key: str, answer: Answer) -> tuple[int, str]:
    """How it was refused; nothing has come of it, in the store or in the log."""
    assert place.stored(key) is None
    assert not [event for event in all_events(place.service) if event.key == key]
    return answer.status, answer.code


# --- what is stored ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_a_form_of_boto3_stores_the_file(place: Place, version: str) -> None:
    client = place.service.s3(place.key, signature_version=version)
    key = place.fresh(f"forms/{version}")
    conditions = [
        ["content-length-range", 1, 1000],
        {"x-amz-meta-by": "boto"},
        ["starts-with", "$Content-Type", "text/"],
    ]
    made = client.generate_presigned_post(place.bucket, key, {"x-amz-meta-by": "boto"}, conditions, 60)
    fields = made["fields"] | {"Content-Type": "text/x-odd"}
    answer = httpx.post(made["url"], data=fields, files={"file": ("a.txt", b"from a form")})
    assert (answer.status_code, answer.content) == (204, b"")
    shown = place.s3.get_object(Bucket=place.bucket, Key=key)
    assert (shown["Body"].read(), shown["ContentType"], shown["Metadata"]) == (
        b"from a form",
        "text/x-odd",
        {"by": "boto"},
    )
    assert answer.headers["etag"] == shown["ETag"]
    assert answer.headers["location"] == f"{place.url}/{place.bucket}/{key}"


def test_what_the_fields_say_of_the_object_is_kept_and_logged(place: Place) -> None:
    key = place.fresh("forms/described")
    data = b"described"
    fields = {
        "key": key,
        "Content-Type": "text/css",
        "Cache-Control": "max-age=5",
        "Content-Disposition": 'attachment; filename="x"',
        "Content-Encoding": "gzip",
        "Expires": "Thu, 01 Dec 2033 16:00:00 GMT",
        "x-amz-meta-Owner": "ü",
        "x-amz-storage-class": "STANDARD_IA",
        "tagging": "<Tagging><TagSet><Tag><Key>a</Key><Value>b &amp; c</Value></Tag></TagSet></Tagging>",
        "acl": "private",
        "x-amz-checksum-sha256": b64encode(hashlib.sha256(data).digest()).decode(),
        "x-unknown": "covered, and ignored",
    }
    answer = posted(place, form_body(signed(place, fields), data))
    assert answer.status == 204, answer.body
    head = place.s3.head_object(Bucket=place.bucket, Key=key, ChecksumMode="ENABLED")
    assert (head["ContentType"], head["CacheControl"], head["ContentEncoding"]) == ("text/css", "max-age=5", "gzip")
    assert head["ContentDisposition"] == 'attachment; filename="x"'
    assert head["Metadata"]["owner"].encode("latin-1").decode() == "ü"
    assert head["ChecksumSHA256"] == fields["x-amz-checksum-sha256"]
    tags = place.s3.get_object_tagging(Bucket=place.bucket, Key=key)["TagSet"]
    assert tags == [{"Key": "a", "Value": "b & c"}]
    (event,) = [event for event in all_events(place.service) if event.key == key]
    assert (event.operation, event.size, event.etag) == (EventKind.PUT, len(data), head["ETag"].strip('"'))
    assert (event.tags, event.storage_class) == ((("a", "b & c"),), "STANDARD_IA")


@pytest.mark.parametrize(
    ("filename", "name"),
    [("photo.jpg", "photo.jpg"), ("C:\\dir\\photo.jpg", "photo.jpg"), ("a/b/c:d é.jpg", "c:d é.jpg"), ("😀", "😀")],
)
def test_the_files_name_can_be_part_of_the_key(place: Place, filename: str, name: str) -> None:
    prefix = place.fresh("forms/named")
    fields = signed(place, {"key": prefix + "/${filename}"}, ["starts-with", "$key", prefix + "/"])
    assert posted(place, form_body(fields, b"x", filename)).status == 204
    assert place.stored(f"{prefix}/{name}") == b"x"
    elsewhere = signed(place, {"key": "${filename}"}, ["starts-with", "$key", prefix + "/"])
    assert posted(place, form_body(elsewhere, b"x", filename)).code == "AccessDenied"


@pytest.mark.parametrize(("wanted", "status"), [("200", 200), ("201", 201), ("204", 204), ("500", 204), ("x", 204)])
def test_the_form_chooses_the_status_of_its_answer(place: Place, wanted: str, status: int) -> None:
    key = place.fresh("forms/a<&>b")
    answer = posted(place, form_body(signed(place, {"key": key, "success_action_status": wanted}), b"x"))
    assert answer.status == status
    if status == 201:
        number = key.rpartition("-")[2]
        assert f"<Bucket>{place.bucket}</Bucket><Key>forms/a&lt;&amp;&gt;b-{number}</Key>".encode() in answer.body
        assert f"<Location>{place.url}/{place.bucket}/forms/a%3C%26%3Eb-{number}</Location>".encode() in answer.body
        assert b"<PostResponse>" in answer.body and b"<ETag>&quot;" in answer.body
    else:
        assert answer.body == b""


def test_the_form_can_send_the_browser_on(place: Place) -> None:
    key = place.fresh("forms/é&=")
    fields = {"key": key, "success_action_redirect": "https://there.test/done?a=b", "success_action_status": "200"}
    answer = posted(place, form_body(signed(place, fields), b"x"))
    assert answer.status == 303
    there = urlsplit(answer.headers["location"])
    assert (there.netloc, there.path) == ("there.test", "/done")
    assert parse_qs(there.query) == {
        "a": ["b"],
        "bucket": [place.bucket],
        "key": [key],
        "etag": [place.s3.head_object(Bucket=place.bucket, Key=key)["ETag"]],
    }
    nowhere = {"key": key, "success_action_redirect": "javascript:alert(1)"}
    assert posted(place, form_body(signed(place, nowhere), b"x")).status == 204


def test_a_bucket_can_be_named_by_the_host(place: Place) -> None:
    key = place.fresh("forms/virtual")
    body = form_body(signed(place, {"key": key}), b"x")
    with place.wire() as wire:
        host = f"{place.bucket}.localhost:{urlsplit(place.url).port}"
        answer = wire.ask(post_head(host, "/", len(body)) + body)
    assert (answer.status, answer.headers["location"]) == (204, f"http://{host}/{key}")
    assert place.stored(key) == b"x"


def test_versions_of_an_object_are_named(place: Place, fresh_name: Any) -> None:
    bucket = fresh_name("forms-versioned")
    place.s3.create_bucket(Bucket=bucket)
    place.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    fields = signed_fields(place.key, bucket, {"key": "k"})
    answers = [posted(place, form_body(fields, data), bucket=bucket) for data in (b"one", b"two")]
    found = place.s3.list_object_versions(Bucket=bucket)["Versions"]
    assert [version["VersionId"] for version in found] == [one.headers["x-amz-version-id"] for one in answers[::-1]]


# --- how it comes in -----------------------------------------------------------------------------


def test_a_large_file_is_streamed(place: Place) -> None:
    """What a gateway process holds of it stays far below its size."""
    size, piece = 100 << 20, bytes(range(256)) * 4096
    key = place.fresh("forms/large")
    start = form_start(signed(place, {"key": key}, ["content-length-range", size, size]))
    before = _peaks(place)
    digest = hashlib.md5(usedforsecurity=False)
    with place.wire(timeout=120) as wire:
        wire.send(post_head(wire.authority, f"/{place.bucket}", len(start) + size + len(FORM_END)) + start)
        for _ in range(size // len(piece)):
            wire.send(piece)
            digest.update(piece)
        answer = wire.ask(FORM_END)
    assert answer.status == 204, answer.body
    assert max(after - before.get(pid, 0) for pid, after in _peaks(place).items()) < 32 << 10
    shown = place.s3.get_object(Bucket=place.bucket, Key=key)
    got = hashlib.md5(usedforsecurity=False)
    for read in shown["Body"].iter_chunks(1 << 20):
        got.update(read)
    assert (shown["ContentLength"], got.hexdigest()) == (size, digest.hexdigest())
    (event,) = [event for event in all_events(place.service) if event.key == key]
    assert event.size == size


def _peaks(place: Place) -> dict[int, int]:
    """The most memory that each gateway process has used, in KiB."""
    found = {}
    for pid in place.service.gateway_pids():
        with open(f"/proc/{pid}/status") as status:  # noqa: PTH123
            found[pid] = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return found


@pytest.mark.parametrize("chunked", [False, True])
def test_a_form_can_come_byte_by_byte(place: Place, chunked: bool) -> None:
    key = place.fresh("forms/slow")
    data = b"\r\n--\r\n-" * 20
    body = form_body(signed(place, {"key": key}, ["content-length-range", len(data), len(data)]), data)
    with place.wire() as wire:
        wire.send(post_head(wire.authority, f"/{place.bucket}", -1 if chunked else len(body)))
        for byte in body:
            wire.send(b"1\r\n%c\r\n" % byte if chunked else bytes([byte]))
        if chunked:
            wire.send(b"0\r\n\r\n")
        assert wire.answer().status == 204
        # The connection is as good as before.
        assert wire.ask(place.request("GET", place.path(key))).body == data


def test_a_large_form_in_chunks_is_stored(place: Place) -> None:
    key = place.fresh("forms/chunks")
    data = bytes(range(256)) * 4096
    body = form_body(signed(place, {"key": key}), data)
    pieces = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
    with place.wire() as wire:
        wire.send(post_head(wire.authority, f"/{place.bucket}", -1))
        for piece in pieces:
            wire.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        assert wire.ask(b"0\r\n\r\n").status == 204
    assert place.stored(key) == data


def test_what_follows_the_file_is_ignored(place: Place) -> None:
    key = place.fresh("forms/followed")
    body = form_body(signed(place, {"key": key}), b"x")
    more = body.replace(b"--\r\n", b"\r\n") + form_body({"key": "other", "acl": "public-read"}, b"y")
    assert posted(place, more).status == 204
    assert place.stored(key) == b"x"


def test_an_expectation_is_met(place: Place) -> None:
    key = place.fresh("forms/expected")
    body = form_body(signed(place, {"key": key}), b"x")
    with place.wire() as wire:
        wire.send(post_head(wire.authority, f"/{place.bucket}", len(body), "Expect: 100-continue"))
        assert wire.head().status == 100
        assert wire.ask(body).status == 204


# --- bodies that are not what they should be -------------------------------------------------------


@pytest.mark.parametrize("size", [10, 100_000, 3 << 20])
def test_a_form_that_breaks_off_stores_nothing(place: Place, size: int) -> None:
    key = place.fresh("forms/cut")
    body = form_body(signed(place, {"key": key}), b"x" * size)
    for kept in (200, len(body) - size // 2, len(body) - 20, len(body) - 4):
        with place.wire() as wire:
            wire.send(post_head(wire.authority, f"/{place.bucket}", len(body)) + body[:kept])
            time.sleep(0.1)
    until(lambda: f'"POST /{place.bucket} HTTP/1.1" 499' in _access_log(place))
    assert place.stored(key) is None
    assert not [event for event in all_events(place.service) if event.key == key]
    # In chunks, whose end is missing.
    with place.wire() as wire:
        wire.send(post_head(wire.authority, f"/{place.bucket}", -1) + b"%x\r\n%b\r\n" % (len(body), body))
        time.sleep(0.1)
    # The length ends it before its own end does.
    answer = posted(place, body[: -len(FORM_END) + 3])
    assert refused(place, key, answer) == (400, "MalformedPOSTRequest")


def _access_log(place: Place) -> str:
    return (place.service.data / "log" / "access.log").read_text()


@pytest.mark.parametrize("size", [99, 201, 500_000, 8 << 20])
def test_a_file_outside_the_range_is_not_stored(place: Place, size: int) -> None:
    key = place.fresh("forms/range")
    fields = signed(place, {"key": key}, ["content-length-range", 100, 200])
    answer = posted(place, form_body(fields, b"x" * size))
    assert refused(place, key, answer) == (400, "EntityTooSmall" if size < 100 else "EntityTooLarge")
    low = signed(place, {"key": key}, ["content-length-range", size + 1, 1 << 30])
    answer = posted(place, form_body(low, b"x" * size))
    assert refused(place, key, answer) == (400, "EntityTooSmall")
    for right in (100, 200):
        assert posted(place, form_body(fields, b"x" * right)).status == 204


@pytest.mark.parametrize("size", [5, 300_000])
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("x-amz-checksum-crc32", "AAAAAA==", "BadDigest"),
        ("x-amz-checksum-sha256", "AAAA", "InvalidRequest"),
        ("x-amz-checksum-odd", "AAAA", "InvalidRequest"),
        ("Content-MD5", b64encode(bytes(16)).decode(), "BadDigest"),
    ],
)
def test_a_file_that_is_not_what_its_fields_say_is_not_stored(
    place: Place, field: str, value: str, code: str, size: int
) -> None:
    key = place.fresh("forms/checked")
    answer = posted(place, form_body(signed(place, {"key": key, field: value}), b"x" * size))
    assert refused(place, key, answer) == (400, code)


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("InvalidArgument", lambda fields: form_start(fields).rpartition(b"\r\n--")[0] + FORM_END),
        ("MalformedPOSTRequest", lambda fields: b"key=x&file=y"),
        ("MalformedPOSTRequest", lambda fields: form_start(fields) + b"x"),
        ("MalformedPOSTRequest", lambda fields: b""),
        ("MaxPostPreDataLengthExceeded", lambda fields: form_body(fields | {"x-ignore-me": "x" * 20_000}, b"x")),
        ("MaxPostPreDataLengthExceeded", lambda fields: b"\r\n" * (1 << 20)),
        ("InvalidArgument", lambda fields: form_body(fields, b"x").replace(b'"acl"', b'"KEY"')),
    ],
    ids=["no file", "another type", "no end", "empty", "too much before it", "nothing but lines", "a field twice"],
)
def test_what_is_no_form_is_refused(place: Place, code: str, make: Any) -> None:
    key = place.fresh("forms/broken")
    answer = posted(place, make(signed(place, {"key": key, "acl": "private"})))
    assert refused(place, key, answer) == (400, code)
    if code == "InvalidArgument" and b"twice" not in answer.body:
        assert b"POST requires exactly one file upload per request." in answer.body


def test_another_type_of_body_is_refused(place: Place) -> None:
    with place.wire() as wire:
        answer = wire.ask(
            post_head(wire.authority, place.path(), 3).replace(CONTENT_TYPE.encode(), b"text/plain") + b"abc"
        )
    assert (answer.status, answer.code) == (412, "PreconditionFailed")


# --- who may -------------------------------------------------------------------------------------


def _other(policy: str) -> str:
    return policy[:10] + ("A" if policy[10] != "A" else "B") + policy[11:]


def _later(fields: Fields) -> Fields:
    return fields | {"x-amz-date": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + 7200))}


@pytest.mark.parametrize(
    ("status", "code", "change"),
    [
        (403, "SignatureDoesNotMatch", lambda fields: fields | {"x-amz-signature": "0" * 64}),
        (403, "SignatureDoesNotMatch", lambda fields: fields | {"policy": _other(fields["policy"])}),
        (400, "InvalidArgument", lambda fields: fields | {"x-amz-signature": "x"}),
        (400, "InvalidArgument", lambda fields: fields | {"x-amz-algorithm": "AWS4-HMAC-SHA1"}),
        (400, "InvalidArgument", lambda fields: fields | {"x-amz-credential": "x"}),
        (400, "InvalidArgument", lambda fields: fields | {"x-amz-date": "20260101T000000Z"}),
        (400, "InvalidArgument", lambda fields: {n: v for n, v in fields.items() if n != "x-amz-signature"}),
        (400, "InvalidArgument", lambda fields: {n: v for n, v in fields.items() if n != "policy"}),
        (400, "InvalidToken", lambda fields: fields | {"x-amz-security-token": "x"}),
        (403, "AccessDenied", lambda fields: fields | {"key": "forms/elsewhere"}),
        (403, "AccessDenied", lambda fields: fields | {"Cache-Control": "no-store"}),
        (403, "AccessDenied", lambda fields: {n: v for n, v in fields.items() if n != "x-amz-meta-a"}),
    ],
    ids=[
        *("signature", "policy", "form of the signature", "algorithm", "credential", "day", "no signature"),
        *("no policy", "session", "key", "field more", "field less"),
    ],
)
def test_a_form_that_was_changed_is_refused(place: Place, status: int, code: str, change: Any) -> None:
    key = place.fresh("forms/changed")
    fields = signed(place, {"key": key, "x-amz-meta-a": "b"})
    answer = posted(place, form_body(change(fields), b"x"))
    assert refused(place, key, answer) == (status, code)
    assert place.stored("forms/elsewhere") is None


def test_the_refusal_says_which_condition_failed(place: Place) -> None:
    fields = signed(place, {"key": place.fresh("forms/told")}, {"x-amz-meta-a": "b"})
    answer = posted(place, form_body(fields, b"x"))
    expected = "Invalid according to Policy: Policy Condition failed: [&quot;eq&quot;, &quot;$x-amz-meta-a&quot;"
    assert expected.encode() in answer.body


def test_forms_have_their_time(place: Place) -> None:
    key = place.fresh("forms/time")
    now = time.time()
    for at, seconds, allowed in (
        (now - 3600, 7200, True),
        (now - 3600, 3500, False),
        (now + 7200, 600, False),
        (now - 8 * 86400, 9 * 86400, False),
    ):
        answer = posted(place, form_body(signed(place, {"key": key}, at=at, seconds=seconds), b"x"))
        assert (answer.status, answer.code) == ((204, "") if allowed else (403, "AccessDenied")), (at, seconds)


def test_a_key_opens_only_what_is_its_own(place: Place, rival: PoolKey, open_bucket: str) -> None:
    key = place.fresh("forms/rival")

    def answer_to(signer: PoolKey, named: str, bucket: str) -> tuple[int, str]:
        answer = posted(place, form_body(signed_fields(signer, named, {"key": key}), b"x"), bucket=bucket)
        return answer.status, answer.code

    assert answer_to(rival, place.bucket, place.bucket) == (403, "AccessDenied")
    assert answer_to(rival, open_bucket, open_bucket) == (403, "AccessDenied")
    assert answer_to(place.key, "forms-rival-bucket", "forms-rival-bucket") == (403, "AccessDenied")
    # The policy is for another bucket of the same pool.
    assert answer_to(place.key, open_bucket, place.bucket) == (403, "AccessDenied")
    assert answer_to(place.key, "no-such-bucket-here", "no-such-bucket-here") == (404, "NoSuchBucket")
    assert answer_to(PoolKey("", "NOSUCHKEY", "x"), open_bucket, open_bucket) == (403, "InvalidAccessKeyId")
    assert answer_to(PoolKey("", place.key.access_key, "x"), open_bucket, open_bucket) == (403, "SignatureDoesNotMatch")
    assert place.stored(key) is None


@pytest.mark.parametrize(("policy", "status"), [("readwrite", 204), ("writeonly", 204), ("readonly", 403)])
def test_the_policy_of_the_key_counts(place: Place, policy: str, status: int) -> None:
    key = place.service.create_key(place.key.pool, "--policy", policy)
    fields = signed_fields(key, place.bucket, {"key": place.fresh("forms/policy")})
    assert posted(place, form_body(fields, b"x")).status == status


@pytest.mark.parametrize(("policy", "status"), [("none", 403), ("download", 403), ("upload", 204), ("public", 204)])
def test_without_a_key_the_policy_of_the_bucket_counts(
    place: Place, open_bucket: str, policy: str, status: int
) -> None:
    place.service.cli("bucket", "policy", open_bucket, policy)
    try:
        key = place.fresh("forms/anonymous")
        answer = posted(place, form_body({"key": key, "x-amz-meta-a": "b"}, b"x"), bucket=open_bucket)
        assert answer.status == status
        locked = {"key": key, "x-amz-object-lock-legal-hold": "ON"}
        assert posted(place, form_body(locked, b"x"), bucket=open_bucket).code == "AccessDenied"
    finally:
        place.service.cli("bucket", "policy", open_bucket, "upload")
    found = place.s3.list_objects_v2(Bucket=open_bucket, Prefix=key)
    assert found["KeyCount"] == (1 if status == 204 else 0)


def test_a_form_is_signed_by_its_policy_alone(place: Place) -> None:
    key = place.fresh("forms/twice")
    body = form_body(signed(place, {"key": key}), b"x")
    with place.wire() as wire:
        raw = request(place.url, place.key, "POST", place.path(), body, headers={"Content-Type": CONTENT_TYPE})
        assert refused(place, key, wire.ask(raw)) == (400, "InvalidArgument")


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("InvalidArgument", {}),
        ("InvalidArgument", {"key": ""}),
        ("InvalidArgument", {"key": "a//b"}),
        ("InvalidArgument", {"key": "a/../b"}),
        ("InvalidArgument", {"key": "folder/"}),
        ("InvalidURI", {"key": "a\0b"}),
        ("KeyTooLongError", {"key": "é" * 513}),
        ("AccessControlListNotSupported", {"key": "k", "acl": "public-read"}),
        ("MalformedXML", {"key": "k", "tagging": "<Tagging/>"}),
        ("InvalidArgument", {"key": "k", "x-amz-meta-a": "b\r\nx-amz-acl: c"}),
        ("InvalidArgument", {"key": "k", "x-amz-meta-a b": "c"}),
        ("InvalidArgument", {"key": "k", "bucket": "forms-rival-bucket"}),
    ],
)
def test_keys_and_fields_that_cannot_be_are_refused(place: Place, open_bucket: str, code: str, fields: Fields) -> None:
    assert posted(place, form_body(fields, b"x"), bucket=open_bucket).code == code
    assert "k" not in {each["Key"] for each in place.s3.list_objects_v2(Bucket=open_bucket).get("Contents", [])}


@pytest.mark.parametrize("key", ["a:b", "line\nbreak", "😀 é+%", "x" * 250 + "/" + "y" * 250, " "])
def test_odd_keys_are_stored_under_their_names(place: Place, open_bucket: str, key: str) -> None:
    assert posted(place, form_body({"key": key}, b"odd"), bucket=open_bucket).status == 204
    assert place.s3.get_object(Bucket=open_bucket, Key=key)["Body"].read() == b"odd"


def test_forms_through_a_slow_wire_do_not_wait_forever(tight: Place) -> None:
    body = form_body(signed_fields(tight.key, tight.bucket, {"key": "stalled"}), b"x" * 100_000)
    for sent in (100, 50_000):
        with Wire(tight.url) as wire:
            wire.send(post_head(wire.authority, f"/{tight.bucket}", len(body)) + body[:sent])
            assert wire.answer().code == "RequestTimeout"
    assert tight.stored("stalled") is None
